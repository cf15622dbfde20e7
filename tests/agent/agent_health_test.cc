// A whole agent's state over HTTP.
#include <atomic>
#include <memory>
#include <thread>

#include "board_fixture.h"
#include "net/await_test.h"
#include "net/raw_client_test.h"
#include "net/server.h"
#include "node/agent_api.h"
#include "node/gpu/nvml_abi.h"

namespace wattle {
namespace {

struct Nowhere final : journal::Sink {};

class AgentHealth : public BoardFixture {};

/// An agent with one engine on both GPUs and a leased clock.
struct Running {
  Nowhere nowhere;
  std::unique_ptr<node::Agent> agent;
  std::atomic<bool> stop{false};
  net::LoopPool pool{1};
  std::unique_ptr<net::HttpServer> server;
  std::thread deciding;

  Running(const std::string& folder, bool advisory) {
    node::AgentOptions options;
    options.keeper.library = FAKE_NVML;
    options.keeper.state_file = folder + "/locks";
    options.keeper.gpu_locks = folder;
    options.keeper.guardian = false;
    options.keeper.advisory = advisory;
    node::AgentEngine engine;
    engine.endpoint = "http://127.0.0.1:1";
    engine.gpus = {"0", "1"};
    auto spec = std::make_shared<InstanceSpec>();
    engine.instance.spec = spec;
    engine.instance.view.id = InstanceId(0);
    engine.instance.view.spec = spec.get();
    engine.leased = MegaHertz(1410);
    std::vector<node::AgentEngine> engines;
    engines.push_back(std::move(engine));
    agent = node::Agent::start(options, std::move(engines), nowhere).value();
    server = net::HttpServer::listen(pool, {}, [this](const std::shared_ptr<net::Exchange>& e) {
               node::answer(*agent, *e);
             }).value();
    deciding = std::thread([this] { agent->run(stop); });
  }
  ~Running() {
    stop = true;
    deciding.join();
    server.reset();
    pool.stop();
  }
  [[nodiscard]] std::string get(const std::string& path) const {
    net::RawClient client(server->port());
    client.send("GET " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    return client.all();
  }
};

TEST_F(AgentHealth, NamesAGpuWhoseMetersCannotBeRead) {
  const Running running(folder_, true);
  await([&] { return running.get("/health").ends_with("ready\n"); });
  board().inject(1, virtual_gpu::FaultPoint::Get, node::nvml::kGpuIsLost);
  await([&] { return running.get("/health").find("\r\n\r\ndegraded: cannot read GPU-") != std::string::npos; });
  board().inject(1, virtual_gpu::FaultPoint::Get, 0);
  await([&] { return running.get("/health").ends_with("ready\n"); });
}

TEST_F(AgentHealth, AClockThatCannotBeReadIsNobodyElsesDoing) {
  const Running running(folder_, false);
  const auto lease = [&](int mhz) {
    ASSERT_FALSE(running.agent->lease({{"http://127.0.0.1:1", MegaHertz(mhz)}}, {}, {"", Span::s(60)}));
    await([&] { return board().clock(0).ceiling == MegaHertz(mhz); });
  };
  lease(1200);
  const std::string clock = "wattle_agent_gpu_clock_mhz{gpu=\"" + board().uuid(0) + "\",instance=\"0\"} ";
  await([&] { return running.get("/metrics").find(clock + "1200\n") != std::string::npos; });
  board().inject(0, virtual_gpu::FaultPoint::Get, node::nvml::kUnknown);
  const auto before = board().calls(0).sets;
  lease(600);
  std::this_thread::sleep_for(
      std::chrono::milliseconds(2'000));  // a lock that shows after 1.5 s is not another process's
  EXPECT_EQ(board().calls(0).sets, before + 1) << "what was read last is no clock of now";
  board().inject(0, virtual_gpu::FaultPoint::Get, 0);
}

}  // namespace
}  // namespace wattle
