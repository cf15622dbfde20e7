// What clients, engines and our own defects may do to a gateway without ending it.
#include <gtest/gtest.h>

#include <stdexcept>

#include "gateway/rig_test.h"
#include "net/await_test.h"
#include "net/clock.h"
#include "net/faults.h"

namespace wattle::gateway {
namespace {

/// With an agent, so that usage is kept; nobody listens there.
void with_agent(GatewayOptions& options, GatewayPolicies&) { options.agents.urls = {"http://127.0.0.1:1"}; }

TEST(Faults, ATenantsNameIsTextOrRefused) {
  Rig rig({Role::Colocated}, 64, "", with_agent);
  const auto ask = [&](const std::string& name) {
    return rig.ask(Rig::chat("", false, "X-Wattle-Tenant: " + name + "\r\n")).substr(9, 3);
  };
  EXPECT_EQ(ask("\xff"), "400");
  EXPECT_EQ(ask("caf\xc3"), "400") << "cut within a character";
  EXPECT_EQ(ask(std::string(129, 'x')), "400");
  EXPECT_EQ(ask("caf\xc3\xa9"), "200");
  rig.settled();
  const std::string usage = rig.admin("/usage");
  EXPECT_EQ(usage.substr(9, 3), "200") << usage;
  EXPECT_EQ(nlohmann::json::parse(Rig::body_of(usage)).at("tenants").at("caf\xc3\xa9").at("requests"), 1);
}

TEST(Faults, AnExceptionCostsItsRequestOnly) {
  Rig rig({Role::Colocated}, 64, "", [](GatewayOptions&, GatewayPolicies& policies) {
    policies.extrapolations = []() -> std::int64_t { throw std::runtime_error("planted"); };
  });
  const std::int64_t before = net::faults();
  const std::string answer = rig.admin("/metrics");  // throws on the control strand, for the caller that waits
  EXPECT_EQ(answer.substr(9, 3), "500") << answer;
  EXPECT_NE(answer.find(R"("type":"server_error")"), std::string::npos) << answer;
  EXPECT_EQ(net::faults(), before + 1);
  EXPECT_EQ(rig.admin("/workers").substr(9, 3), "200");
  EXPECT_NE(rig.ask(Rig::chat("", true), true).find("[DONE]"), std::string::npos);
  EXPECT_EQ(rig.settled().finished, 1);
}

TEST(Faults, AnEngineThatSaysItFailedHasFailedOnce) {
  Rig rig;
  // vLLM's front end ends the stream of a dead engine core well-formed, [DONE] included.
  const std::string answer = rig.ask(Rig::chat("error-done", true), true);
  EXPECT_NE(answer.find("EngineCore died"), std::string::npos);
  EXPECT_EQ(answer.find("engine_failed"), std::string::npos) << "a second error was added";
  const auto counts = rig.settled();
  EXPECT_EQ(counts.failed, 1);
  EXPECT_EQ(counts.finished, 0);
}

/// The first of two engines is down, and nobody has noticed.
void one_is_down(GatewayOptions& options, GatewayPolicies&) {
  options.workers.push_back(options.workers.front());
  options.workers.front().url = "http://127.0.0.1:1";
}

TEST(Faults, AnEngineThatRefusesConnectionsCostsNoRequest) {
  for (const bool stream : {false, true}) {
    Rig rig({Role::Colocated}, 64, "", one_is_down);
    EXPECT_EQ(rig.ask(Rig::chat("", stream)).substr(9, 3), "200");
    EXPECT_EQ(rig.ask(Rig::chat("", stream)).substr(9, 3), "200") << "the first is known to be down";
    const auto counts = rig.settled();
    EXPECT_EQ(counts.arrived, 2);
    EXPECT_EQ(counts.finished, 2);
    EXPECT_EQ(rig.upstream.seen.size(), 2U);
    EXPECT_EQ(rig.sink.all.at(0).decode_instance, InstanceId(1));
    const std::string metrics = rig.admin("/metrics");
    EXPECT_NE(metrics.find("wattle_gateway_retries_total 1\n"), std::string::npos) << metrics;
    EXPECT_NE(metrics.find("worker_failures_total{worker=\"http://127.0.0.1:1\"} 1\n"), std::string::npos) << metrics;
  }
}

TEST(Faults, WithNoOtherEngineARefusedConnectionIsA503) {
  Rig rig({Role::Colocated}, 64, "",
          [](GatewayOptions& options, GatewayPolicies&) { options.workers.front().url = "http://127.0.0.1:1"; });
  const std::string answer = rig.ask(Rig::chat("", true));
  EXPECT_EQ(answer.substr(9, 3), "503") << answer;
  EXPECT_NE(answer.find("Retry-After"), std::string::npos) << answer;
  EXPECT_EQ(rig.settled().rejected, 1);
}

/// The second of two engines stands elsewhere.
struct Pair {
  Upstream second;
  Rig rig;
  explicit Pair(const std::function<void(GatewayOptions&)>& change = nullptr, bool second_is_up = true)
      : second(second_is_up),
        rig({Role::Colocated, Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
          options.workers.back().url = second.url();
          if (change) change(options);
        }) {}
};

TEST(Faults, ARequestThatNoByteHasComeOfGoesToAnotherEngineOnce) {
  for (const bool stream : {false, true}) {
    Pair pair;
    pair.rig.upstream.drops = true;
    const std::string answer = pair.rig.ask(Rig::chat("", stream), stream);
    EXPECT_EQ(answer.substr(9, 3), "200") << answer;
    const auto counts = pair.rig.settled();
    EXPECT_EQ(counts.arrived, 1);
    EXPECT_EQ(counts.finished, 1);
    ASSERT_EQ(pair.rig.sink.all.size(), 1U) << "one fate";
    EXPECT_EQ(pair.rig.sink.all.at(0).decode_instance, InstanceId(1));
    EXPECT_EQ(pair.rig.upstream.seen_count(), 1);
    EXPECT_EQ(pair.second.seen_count(), 1);
    EXPECT_NE(pair.rig.admin("/metrics").find("wattle_gateway_retries_total 1\n"), std::string::npos);
  }
}

TEST(Faults, AnEngineThatIsGoneRefusesAndItsRequestWaitsForAnother) {
  const auto probed = [](GatewayOptions& options) {
    options.unready_wait = Span::s(60);
    options.probe_health = true;
    options.health_period = Span::ms(20);
    options.probe_timeout = Span::ms(50);
    options.health_misses = 1'000'000;  // probes do not notice
  };
  Pair pair(probed, false);
  await([&] { return pair.rig.ready(0); });
  pair.rig.upstream.hangs = true;
  net::RawClient client(pair.rig.gateway->port());
  client.send(Rig::chat("", false));
  await([&] { return pair.rig.upstream.seen_count() >= 1; });
  pair.rig.upstream.server->stop(Span());  // with the request; and from now on it refuses
  await([&] { return pair.rig.gateway->counts().held >= 1; });
  pair.second.answers_health = true;
  EXPECT_EQ(client.response().substr(9, 3), "200");
  EXPECT_EQ(pair.rig.settled().finished, 1);
}

TEST(Faults, WhatKillsEnginesKillsTwoAtMost) {
  Pair pair;
  pair.rig.upstream.drops = pair.second.drops = true;
  EXPECT_EQ(pair.rig.ask(Rig::chat("", false)).substr(9, 3), "502");
  EXPECT_EQ(pair.rig.settled().failed, 1);
  EXPECT_EQ(pair.rig.upstream.seen_count() + pair.second.seen_count(), 2);
}

TEST(Faults, ALostEnginesWholeAnswersAreMadeElsewhereAndBegunStreamsEnd) {
  const auto probed = [](GatewayOptions& options) {
    options.probe_health = true;
    options.probe_timeout = Span::ms(50);
    options.health_period = Span::ms(20);
    options.lost_after = Span::ms(100);
    options.unready_wait = Span::s(60);
  };
  Pair pair(probed, false);  // the other site is not up yet
  await([&] { return pair.rig.ready(0) && !pair.rig.ready(1); });
  net::RawClient begun(pair.rig.gateway->port());
  begun.send(Rig::chat("park", true));
  begun.until("t0");
  pair.rig.upstream.hangs = true;
  std::vector<std::unique_ptr<net::RawClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<net::RawClient>(pair.rig.gateway->port()));
    clients.back()->send(Rig::chat("", i % 2 == 0));
  }
  await([&] { return pair.rig.upstream.seen_count() >= 7; });  // with the stream that has begun
  pair.rig.upstream.answers_health = false;
  await([&] { return pair.rig.gateway->counts().held >= 6; });
  pair.second.answers_health = true;
  for (int i = 0; i < 6; ++i) {
    auto& client = *clients[static_cast<std::size_t>(i)];
    const std::string answer = i % 2 == 0 ? client.until("0\r\n\r\n") : client.response();
    EXPECT_EQ(answer.substr(9, 3), "200") << i << answer;
  }
  EXPECT_NE(begun.until("0\r\n\r\n").find("the engine stopped answering"), std::string::npos);
  const auto counts = pair.rig.settled();
  EXPECT_EQ(counts.finished, 6);
  EXPECT_EQ(counts.failed, 1);
}

TEST(Faults, WhileNoEngineIsThereRequestsWaitForOne) {
  Upstream engine(false);
  Rig rig({Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
    options.workers.front().url = engine.url();
    options.unready_wait = Span::s(60);
    options.probe_health = true;
    options.health_period = Span::ms(20);
    options.probe_timeout = Span::ms(50);
  });
  EXPECT_EQ(rig.ask("GET /health HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "503");
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat("", false));
  await([&] { return rig.gateway->counts().held >= 1; });
  engine.answers_health = true;
  EXPECT_EQ(client.response().substr(9, 3), "200");
  EXPECT_EQ(rig.settled().finished, 1);
}

TEST(Faults, TimeOutsAreSaidAndStopTheEngine) {
  Rig first_byte({Role::Colocated}, 64, "",
                 [](GatewayOptions& options, GatewayPolicies&) { options.client.head_timeout = Span::ms(50); });
  const std::string none = first_byte.ask(Rig::chat("silent", true));
  EXPECT_EQ(none.substr(9, 3), "504") << none;
  EXPECT_NE(none.find("timed out"), std::string::npos) << none;
  Rig gap({Role::Colocated}, 64, "",
          [](GatewayOptions& options, GatewayPolicies&) { options.client.body_timeout = Span::ms(50); });
  const std::string half = gap.ask(Rig::chat("park", true), true);
  EXPECT_NE(half.find("t0"), std::string::npos) << half;
  EXPECT_NE(half.find("data: {\"error\":{\"message\":\"the engine failed: timed out\""), std::string::npos) << half;
  for (Rig* const rig : {&first_byte, &gap}) {
    await([&] { return rig->upstream.gone >= 1; });
    EXPECT_EQ(rig->settled().failed, 1);
  }
}

TEST(Faults, StreamsOfAnEngineThatHangsEnd) {
  Rig rig({Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies&) {
    options.probe_health = true;
    options.probe_timeout = Span::ms(50);
    options.health_period = Span::ms(20);
    options.lost_after = Span::ms(100);
  });
  await([&] { return rig.ask("GET /health HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3) == "200"; });
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat("park", true));
  client.until("t0");
  rig.upstream.answers_health = false;
  const std::string rest = client.until("0\r\n\r\n");
  EXPECT_NE(rest.find(R"("message":"the engine stopped answering")"), std::string::npos) << rest;
  EXPECT_EQ(rig.settled().failed, 1);
  await([&] { return rig.upstream.gone != 0; });  // the engine, should it come back, has been asked to stop
}

TEST(Faults, AStreamThatIsCutOffByStoppingSaysSo) {
  Rig rig;
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat("park", true));
  client.until("t0");
  std::thread stopping([&] { rig.gateway->stop(Span::ms(50)); });
  const std::string rest = client.until("0\r\n\r\n");
  stopping.join();
  EXPECT_NE(rest.find(R"(data: {"error":{"message":"the gateway is stopping)"), std::string::npos) << rest;
  await([&] { return rig.upstream.gone != 0; });
  ASSERT_EQ(rig.sink.all.size(), 1U);
  EXPECT_EQ(rig.sink.all.at(0).fate, Fate::Failed);
}

TEST(Faults, ASecondWishToStopEndsTheDrainAtOnce) {
  Rig rig;
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat("park", true));
  client.until("t0");
  std::atomic<int> asked{0};
  std::thread stopping([&] { rig.gateway->stop(Span::s(86'400), [&asked] { return ++asked > 2; }); });
  const std::string rest = client.until("0\r\n\r\n");
  stopping.join();
  EXPECT_NE(rest.find(R"(data: {"error":{"message":"the gateway is stopping)"), std::string::npos) << rest;
  EXPECT_EQ(asked, 3);
}

TEST(Faults, WhatArrivesIsNotKnownWhileTheGatewayStops) {
  Rig rig;
  EXPECT_EQ(rig.admin("/plan").find("stopping"), std::string::npos);
  auto client = std::make_unique<net::RawClient>(rig.gateway->port());
  client->send(Rig::chat("park", true));
  client->until("t0");
  std::thread stopping([&] { rig.gateway->stop(Span::s(20)); });
  await([&] { return rig.admin("/plan").find(R"("stopping":true)") != std::string::npos; });
  client.reset();
  stopping.join();
}

TEST(Faults, AFailingJournalIsSaidAndRequestsGoOn) {
  std::atomic<bool> full{false};
  Rig rig({Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
    options.journal = [&full] { return GatewayOptions::JournalState{full ? "No space left" : "", 0}; };
  });
  EXPECT_NE(rig.admin("/health").find(R"({"status":"ok"})"), std::string::npos);
  EXPECT_NE(rig.admin("/metrics").find("wattle_gateway_journal_failing 0"), std::string::npos);
  full = true;
  const std::string health = rig.admin("/health");
  EXPECT_EQ(health.substr(9, 3), "200");
  EXPECT_NE(health.find(R"("journal":"No space left")"), std::string::npos) << health;
  EXPECT_NE(rig.admin("/metrics").find("wattle_gateway_journal_failing 1"), std::string::npos);
  EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "200");
}

TEST(Faults, AnEventMayBeLargeAndNotEndless) {
  Rig rig;
  const std::string big = rig.ask(Rig::chat("big", true), true);
  EXPECT_GT(big.size(), std::size_t{3} << 20);
  EXPECT_NE(big.find("data: [DONE]"), std::string::npos) << big.substr(big.size() - 200);
  EXPECT_EQ(rig.settled().finished, 1);
  for (const char* mode : {"endless", "endless-comment"}) {
    const std::string cut = rig.ask(Rig::chat(mode, true), true);
    EXPECT_LT(cut.size(), 4096U) << "nothing of an event that has no end";
    EXPECT_NE(cut.find("t4"), std::string::npos) << "all of those before it";
    EXPECT_NE(cut.find("an event larger than the gateway accepts"), std::string::npos) << cut;
  }
  EXPECT_EQ(rig.settled().failed, 2);
}

TEST(Faults, WhereEnginesFetchKvIsNotAClientsToSay) {
  Rig rig;  // no prefill worker: the fields were passed on to the engine
  for (const char* field :
       {R"("kv_transfer_params":{"do_remote_prefill":true,"remote_host":"169.254.169.254","remote_port":80})",
        R"("kv_tr\u0061nsfer_params":{})", R"("bootstrap_host":"10.0.0.1")", R"("bootstrap_room":5)",
        R"("disaggregated_params":{})", R"("vllm_xargs":{"kv_transfer_params":"x"})"}) {
    const std::string answer = rig.ask(Rig::post(R"({"model":"m","messages":[],)" + std::string(field) + "}"));
    EXPECT_EQ(answer.substr(9, 3), "400") << field << answer;
    EXPECT_NE(answer.find("is set by the gateway"), std::string::npos) << answer;
  }
  EXPECT_EQ(rig.gateway->counts().arrived, 0);
  EXPECT_TRUE(rig.upstream.seen.empty());
  // A name is no crime elsewhere.
  const std::string schema = R"({"model":"m","messages":[],"tools":[{"properties":{"bootstrap_host":{}}}]})";
  EXPECT_EQ(rig.ask(Rig::post(schema)).substr(9, 3), "200");
}

}  // namespace
}  // namespace wattle::gateway
