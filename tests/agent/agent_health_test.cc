// What a whole agent says of itself over HTTP.
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

TEST_F(AgentHealth, NamesAGpuWhoseMetersCannotBeRead) {
  node::AgentOptions options;
  options.keeper.library = FAKE_NVML;
  options.keeper.state_file = folder_ + "/locks";
  options.keeper.gpu_locks = folder_;
  options.keeper.advisory = true;
  node::AgentEngine engine;
  engine.endpoint = "http://127.0.0.1:1";
  engine.gpus = {"0", "1"};
  auto spec = std::make_shared<InstanceSpec>();
  engine.instance.spec = spec;
  engine.instance.view.id = InstanceId(0);
  engine.instance.view.spec = spec.get();
  engine.leased = MegaHertz(1410);
  Nowhere nowhere;
  std::vector<node::AgentEngine> engines;
  engines.push_back(std::move(engine));
  auto agent = node::Agent::start(options, std::move(engines), nowhere);
  ASSERT_TRUE(agent) << agent.error().message();
  std::atomic<bool> stop{false};
  std::thread deciding([&] { (*agent)->run(stop); });
  net::LoopPool pool(1);
  auto server =
      net::HttpServer::listen(pool, {}, [&](const std::shared_ptr<net::Exchange>& e) { node::answer(**agent, *e); });
  ASSERT_TRUE(server) << server.error().message();
  const auto health = [&] {
    net::RawClient client((*server)->port());
    client.send("GET /health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    return client.all();
  };
  await([&] { return health().ends_with("ready\n"); });
  board().inject(1, virtual_gpu::FaultPoint::Get, node::nvml::kGpuIsLost);
  await([&] { return health().find("\r\n\r\ndegraded: cannot read GPU-") != std::string::npos; });
  board().inject(1, virtual_gpu::FaultPoint::Get, 0);
  await([&] { return health().ends_with("ready\n"); });
  stop = true;
  deciding.join();
  server->reset();
  pool.stop();
}

}  // namespace
}  // namespace wattle
