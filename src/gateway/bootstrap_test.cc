// SGLang's contract: both legs at once, one dead leg takes the other along, and nobody stops what has been handed over.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "gateway/gateway.h"
#include "gateway/leg_bootstrap.h"
#include "net/await_test.h"
#include "net/openai.h"
#include "net/raw_client_test.h"
#include "net/server.h"

namespace wattle::gateway::bootstrap_test {
namespace {

using Handler = std::function<void(const std::shared_ptr<net::Exchange>&)>;

/// An engine that parks what it is asked, and does as the test says.
struct Party {
  std::mutex mutex;
  std::vector<nlohmann::json> seen;
  std::atomic<int> asked{0};
  std::atomic<int> gone{0};
  std::vector<std::shared_ptr<net::Exchange>> parked;  ///< on the loop only
  Handler first = [](const auto&) {};
  net::LoopPool pool{1};
  std::unique_ptr<net::HttpServer> server;

  Party() {
    server = std::move(*net::HttpServer::listen(pool, {}, [this](std::shared_ptr<net::Exchange> e) {
      {
        const std::lock_guard lock(mutex);
        seen.push_back(nlohmann::json::parse(e->body()));
      }
      e->on_gone([this] { ++gone; });
      parked.push_back(e);
      first(e);
      ++asked;
    }));
  }
  ~Party() {
    server.reset();
    pool.stop();
    parked.clear();
  }
  void then(const Handler& what) {
    await([&] { return asked != 0; });
    pool.at(0).post([this, what] { what(parked.back()); });
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server->port()); }
};

const Handler kToken = [](const auto& e) {
  e->begin(200, "text/event-stream");
  e->write("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" t\"}}]}\n\n");
};
const Handler kDone = [](const auto& e) {
  e->write("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
  e->finish();
};
const Handler kDrop = [](const auto& e) { e->drop(); };
const Handler kAnswer = [](const auto& e) { e->respond(200, "application/json", "{}"); };

struct Outcomes final : journal::Sink {
  std::mutex mutex;
  std::vector<Outcome> all;
  void outcome(const Outcome& o) override {
    const std::lock_guard lock(mutex);
    all.push_back(o);
  }
};

struct Rig {
  Outcomes sink;
  Party prefill;
  Party decode;
  std::unique_ptr<Gateway> gateway;

  explicit Rig(bool with_decode = true) {
    GatewayOptions options;
    options.unready_wait = Span();
    options.models = {"m"};
    options.probe_health = false;
    options.contract = PdContract::Bootstrap;
    WorkerOptions worker;
    worker.url = prefill.url();
    worker.role = Role::Prefill;
    worker.bootstrap_port = 8998;
    options.workers.push_back(worker);
    worker.url = decode.url();
    worker.role = with_decode ? Role::Decode : Role::Prefill;
    options.workers.push_back(worker);
    gateway = std::move(*Gateway::start(options, {}, sink));
  }
  static std::string chat(bool stream = true) {
    const std::string body =
        std::string(R"({"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5,)") + R"("stream":)" +
        (stream ? "true}" : "false}");
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  journal::RequestCounts settled() {
    await([&] { return gateway->counts().in_flight == 0; });
    return gateway->counts();
  }
  std::int32_t assigned(int worker) {
    net::RawClient client(gateway->admin_port());
    client.send("GET /workers/" + std::to_string(worker) + " HTTP/1.1\r\nHost: h\r\n\r\n");
    const std::string answer = client.response();
    return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4)).at("active_requests");
  }
};

TEST(Bootstrap, BothLegsGetTheSameBodyAndTheClientTheDecodeLeg) {
  Rig rig;
  rig.decode.first = kToken;
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat());
  client.until(" t");
  await([&] { return rig.assigned(0) == 0; });  // a token: the KV has been handed over
  EXPECT_EQ(rig.assigned(1), 1);
  rig.prefill.then(kAnswer);
  rig.decode.then(kDone);
  EXPECT_NE(client.until("0\r\n\r\n").find("[DONE]"), std::string::npos);
  EXPECT_EQ(rig.settled().finished, 1);
  EXPECT_EQ(rig.prefill.seen.at(0), rig.decode.seen.at(0));
  const auto& body = rig.decode.seen.at(0);
  EXPECT_EQ(body["bootstrap_host"], "127.0.0.1");
  EXPECT_EQ(body["bootstrap_port"], 8998);
  EXPECT_LT(body["bootstrap_room"].get<std::uint64_t>(), std::uint64_t{1} << 63U);
  EXPECT_EQ(body["max_tokens"], 5) << "unchanged on both legs";
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(rig.sink.all.at(0).prefill_instance, InstanceId(0));
  EXPECT_EQ(rig.sink.all.at(0).decode_instance, InstanceId(1));
}

TEST(Bootstrap, ADeadPrefillLegTakesDecodeAlong) {
  Rig rig;
  rig.prefill.first = kDrop;
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat());
  EXPECT_EQ(client.response().substr(9, 3), "502");
  await([&] { return rig.decode.gone != 0; });
  EXPECT_EQ(rig.settled().failed, 1);
  EXPECT_EQ(rig.assigned(0), 0);
  EXPECT_EQ(rig.assigned(1), 0);
}

TEST(Bootstrap, ARefusalOfThePrefillLegReachesTheClient) {
  Rig rig;
  rig.prefill.first = [](const auto& e) { e->respond(400, "application/json", R"({"error":{"message":"too long"}})"); };
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat());
  const std::string answer = client.response();
  EXPECT_EQ(answer.substr(9, 3), "400");
  EXPECT_NE(answer.find("too long"), std::string::npos);
  await([&] { return rig.decode.gone != 0; });
  EXPECT_EQ(rig.settled().rejected, 1);
}

TEST(Bootstrap, ADeadDecodeLegTakesPrefillAlong) {
  for (const bool refused : {false, true}) {
    Rig rig;
    rig.decode.first = refused ? Handler([](const auto& e) { e->respond(503, "application/json", "{}"); }) : kDrop;
    net::RawClient client(rig.gateway->port());
    client.send(Rig::chat());
    EXPECT_EQ(client.response().substr(9, 3), refused ? "503" : "502");
    await([&] { return rig.prefill.gone != 0; });
    EXPECT_EQ(rig.settled().failed, 1);
  }
}

TEST(Bootstrap, AClientThatLeavesStopsBothUntilTheHandOver) {
  Rig rig;
  {
    net::RawClient client(rig.gateway->port());
    client.send(Rig::chat());
    await([&] { return rig.prefill.asked != 0 && rig.decode.asked != 0; });
    client.close();
  }
  await([&] { return rig.prefill.gone != 0 && rig.decode.gone != 0; });
  EXPECT_EQ(rig.settled().cancelled, 1);

  Rig late;
  late.decode.first = kToken;
  net::RawClient client(late.gateway->port());
  client.send(Rig::chat());
  client.until(" t");
  client.close();
  await([&] { return late.decode.gone != 0; });
  EXPECT_EQ(late.settled().cancelled, 1);
  EXPECT_EQ(late.prefill.gone, 0) << "what has been handed over is not ours to stop";
  late.prefill.then(kAnswer);
}

TEST(Bootstrap, WithoutADecodeInstanceNothingIsSent) {
  Rig rig(false);
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat());
  EXPECT_EQ(client.response().substr(9, 3), "503");
  EXPECT_EQ(rig.settled().rejected, 1);
  EXPECT_EQ(rig.prefill.asked + rig.decode.asked, 0);
}

TEST(Bootstrap, BodiesForOneAndForABatch) {
  const std::uint64_t rooms[] = {~std::uint64_t{0}, 7};
  const auto one =
      nlohmann::json::parse(*bootstrap::body_for_both(R"({"a":1})", "h", std::nullopt, std::span(rooms, 1)));
  EXPECT_EQ(one, nlohmann::json::parse(
                     R"({"a":1,"bootstrap_host":"h","bootstrap_port":null,"bootstrap_room":9223372036854775807})"));
  const auto batch = nlohmann::json::parse(*bootstrap::body_for_both(R"({"a":1})", "h", 5, rooms));
  EXPECT_EQ(batch, nlohmann::json::parse(R"({"a":1,"bootstrap_host":["h","h"],"bootstrap_port":[5,5],)"
                                         R"("bootstrap_room":[9223372036854775807,7]})"));
  EXPECT_FALSE(bootstrap::body_for_both("[1", "h", 5, rooms));
}

TEST(Bootstrap, CountsThePromptsOfABatch) {
  const auto prompts = [](std::string body) {
    body.reserve(body.size() + net::RequestParser::kBodyPadding);
    return net::read_completion(net::ApiPath::Completions, body).value().prompts;
  };
  EXPECT_EQ(prompts(R"({"model":"m","prompt":"a"})"), 1);
  EXPECT_EQ(prompts(R"({"model":"m","prompt":["a","b","c"]})"), 3);
  EXPECT_EQ(prompts(R"({"model":"m","prompt":[1,2,3]})"), 1);
  EXPECT_EQ(prompts(R"({"model":"m","prompt":[[1,2],[3]]})"), 2);
}

}  // namespace
}  // namespace wattle::gateway::bootstrap_test
