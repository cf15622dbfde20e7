// What is booked of a request, and what its client hears of it: by what engines say.
#include <gtest/gtest.h>

#include "gateway/charged_answer.h"
#include "gateway/prompt_scale.h"
#include "gateway/rig_test.h"

namespace wattle::gateway {
namespace {

TEST(Books, WhoHasReadItsAnswerFindsItBooked) {
  Rig rig;
  for (std::int64_t n = 1; n <= 2'000; ++n) {
    rig.ask(Rig::chat("", n % 2 == 0), n % 2 == 0);
    ASSERT_EQ(rig.gateway->counts().finished, n);
  }
}

TEST(Books, AnEnginesOwnCountsAreBooked) {
  Rig rig;
  rig.ask(Rig::chat("", true, "X-Request-Id: my/own-id\r\nX-Wattle-Prompt-Tokens: 1\r\n"), true);
  rig.ask(Rig::chat("refuse", true), false);
  rig.settled();
  EXPECT_EQ(rig.sink.all.at(0).request.prompt_tokens, 9) << "the client said 1, and would have believed 4";
  EXPECT_EQ(rig.sink.all.at(0).output_tokens, 7);
  EXPECT_EQ(rig.sink.all.at(0).cached_prompt_tokens, 4);
  EXPECT_EQ(rig.sink.all.at(1).request.prompt_tokens, 0) << "its engine refused it";
  const auto row = nlohmann::json::parse(Rig::body_of(rig.admin("/usage/requests/my%2Fown-id"))).at("requests").at(0);
  EXPECT_EQ(row["prompt_tokens"], 9);
  EXPECT_EQ(row["cached_tokens"], 4);
  EXPECT_EQ(row["reasoning_tokens"], 2);
  EXPECT_EQ(row["output_tokens"], 7);
  EXPECT_TRUE(row["energy_j"].is_null()) << "nobody meters it";
  EXPECT_EQ(row["fate"], "finished");
  EXPECT_EQ(rig.admin("/usage/requests/other").substr(9, 3), "404");
  const std::string metrics = rig.admin("/metrics");
  for (const char* line :
       {"wattle_gateway_prompt_tokens_total 9\n", "wattle_gateway_cached_prompt_tokens_total 4\n",
        "wattle_gateway_reasoning_tokens_total 2\n", "wattle_gateway_uncounted_requests_total 0\n",
        "wattle_gateway_unmetered_requests_total 1\n", "wattle_gateway_input_sequence_tokens_count 1\n"}) {
    EXPECT_NE(metrics.find(line), std::string::npos) << line << metrics;
  }
}

TEST(Books, WhatADecodeEngineGotFromAPrefillEngineWasComputed) {
  Rig rig({Role::Prefill, Role::Decode});
  rig.ask(Rig::chat("", true, "X-Request-Id: pd\r\n"), true);
  rig.settled();
  const auto row = nlohmann::json::parse(Rig::body_of(rig.admin("/usage/requests/pd"))).at("requests").at(0);
  EXPECT_EQ(row["cached_tokens"], 3) << "by the prefill engine; the decode engine says 4";
  EXPECT_EQ(row["prompt_tokens"], 9);
  EXPECT_EQ(row["output_tokens"], 7);
}

TEST(Books, UsageIsAskedForWhateverTheClientSaysOfItsStream) {
  Rig rig;
  for (const char* options : {"null", "{}", R"({"include_usage":false,"continuous_usage_stats":false})"}) {
    const std::string answer = rig.ask(
        Rig::post(R"({"model":"m","messages":[],"stream":true,"stream_options":)" + std::string(options) + "}"), true);
    EXPECT_EQ(rig.upstream.seen.back()["stream_options"]["include_usage"], true) << options;
    EXPECT_EQ(answer.find("usage"), std::string::npos) << answer;
    EXPECT_NE(answer.find("[DONE]"), std::string::npos) << answer;
  }
  EXPECT_EQ(rig.ask(Rig::post(R"({"model":"m","messages":[],"stream_options":7})")).substr(9, 3), "400");
  EXPECT_EQ(rig.output_tokens(), 21);
}

TEST(Books, AStreamWithoutAFinishHasFailed) {
  for (const char* mode : {"no-finish", "only-done", "no-words"}) {
    Rig rig;
    const std::string answer = rig.ask(Rig::chat(mode, true), true);
    EXPECT_NE(answer.find("[DONE]"), std::string::npos);
    const bool finished = std::string_view(mode) == "no-words";  // an answer may be empty, and says so
    const auto counts = rig.settled();
    EXPECT_EQ(counts.failed, finished ? 0 : 1) << mode;
    EXPECT_EQ(counts.finished, finished ? 1 : 0) << mode;
  }
}

TEST(Books, AMeterThatIsAwayIsSaid) {
  Rig rig({Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies&) {
    options.agents.urls = {"http://127.0.0.1:1"};  // nobody listens there
  });
  const std::string health = rig.ask("GET /health HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(health.substr(9, 3), "200") << "requests are served";
  EXPECT_NE(health.find(R"({"status":"degraded","unmetered_workers":1})"), std::string::npos) << health;
  EXPECT_NE(rig.admin("/metrics").find("wattle_gateway_unmetered_workers 1\n"), std::string::npos);
  Rig unmetered;
  EXPECT_NE(unmetered.admin("/health").find(R"({"status":"ok"})"), std::string::npos) << "nobody was to meter it";
}

TEST(Books, OfAWorkerThatWasTakenOutNobodyMissesAReading) {
  Rig rig({Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies&) {
    options.agents.urls = {"http://127.0.0.1:1"};  // nobody listens there
  });
  net::RawClient client(rig.gateway->admin_port());
  client.send(Rig::post(R"({"url":")" + rig.upstream.other_url() + R"("})", "/workers"));
  EXPECT_EQ(client.response().substr(9, 3), "202");
  EXPECT_NE(rig.admin("/health").find(R"("unmetered_workers":2)"), std::string::npos);
  net::RawClient second(rig.gateway->admin_port());
  second.send("DELETE /workers/1 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(second.response().substr(9, 3), "202");
  EXPECT_NE(rig.admin("/health").find(R"("unmetered_workers":1)"), std::string::npos) << rig.admin("/health");
  EXPECT_NE(rig.admin("/metrics").find("wattle_gateway_unmetered_workers 1\n"), std::string::npos);
}

TEST(Books, PicturesAreNoText) {
  const std::string picture(40'000, 'A');
  const auto size = [](const std::string& content) {
    const std::string body = padded(R"({"model":"m","messages":[{"role":"user","content":)" + content + "}]}");
    return net::read_completion(net::ApiPath::Chat, body).value().prompt;
  };
  const auto inlined = size(R"([{"type":"text","text":"what is it?"},{"type":"image_url","image_url":{"url":)"
                            R"("data:image/png;base64,)" +
                            picture + R"("}}])");
  EXPECT_EQ(inlined.media, 1);
  EXPECT_LT(inlined.bytes, 60);
  EXPECT_EQ(size(R"([{"type":"input_audio","input_audio":{"data":")" + picture + R"(","format":"wav"}}])").media, 1);
  EXPECT_GT(size("\"" + picture + "\"").bytes, 40'000) << "text is";
}

TEST(Books, APromptsLengthIsLearntFromWhatWasCounted) {
  PromptScale scale;
  const net::PromptSize chinese{0, 1000, 0};
  EXPECT_EQ(scale.tokens(0, chinese), 250);
  for (int i = 0; i < 200; ++i) scale.learn(0, chinese, 1000);
  EXPECT_NEAR(scale.tokens(0, chinese), 1000, 10);
  EXPECT_EQ(scale.tokens(1, chinese), 250) << "another model's";
  EXPECT_EQ(scale.tokens(0, {7, 0, 0}), 7) << "ids are exact";
  PromptScale untaught;
  for (int i = 0; i < 200; ++i) untaught.learn(0, {0, 1000, 1}, 5000);
  EXPECT_EQ(untaught.tokens(0, chinese), 250) << "what pictures cost says nothing of text";
}

TEST(Books, EnergyGoesIntoTheUsageThatIsThere) {
  const EnergySaid said{12.5, 0.001, "measured"};
  EXPECT_EQ(with_energy(R"({"id":"x","usage":{"prompt_tokens":3}})", said),
            R"({"id":"x","usage":{"energy_j":12.5,"carbon_g":0.001,"energy_meters":"measured","prompt_tokens":3}})");
  for (const char* json : {R"({"id":"x"})", R"({"usage": { } })", R"({"usage":null,"id":"x"})"}) {
    const auto body = nlohmann::json::parse(with_energy(json, {}));
    EXPECT_TRUE(body["usage"]["energy_j"].is_null()) << body;
    EXPECT_EQ(body["usage"]["energy_meters"], "none") << body;
  }
}

TEST(Books, EnergyIsSaidWhereAClientAsksAndUnknownIsNull) {
  Rig rig;
  const std::string asks = "X-Wattle-Usage: energy\r\n";
  const std::string whole = rig.ask(Rig::chat("", false, asks));
  EXPECT_NE(whole.find("X-Wattle-Energy-Meters: none\r\n"), std::string::npos) << whole;
  EXPECT_EQ(whole.find("X-Wattle-Energy-J"), std::string::npos) << whole;
  const auto usage = nlohmann::json::parse(Rig::body_of(whole)).at("usage");
  EXPECT_TRUE(usage.at("energy_j").is_null());
  EXPECT_EQ(usage.at("completion_tokens"), 5);
  for (const char* mode : {"", "split-usage"}) {
    const std::string stream = rig.ask(Rig::chat(mode, true, asks), true);
    const auto at = stream.find(R"("usage":{"energy_j":null,"carbon_g":null,"energy_meters":"none","prompt_tokens":9)");
    EXPECT_NE(at, std::string::npos) << stream;
    EXPECT_GT(stream.find("data: [DONE]\n\n"), at) << stream;
    EXPECT_NE(stream.find("t4"), std::string::npos) << stream;
  }
  EXPECT_NE(rig.ask(Rig::chat("error-done", true, asks), true).find("[DONE]"), std::string::npos);
  EXPECT_EQ(rig.ask(Rig::chat("refuse", false, asks)).substr(9, 3), "422");
  EXPECT_EQ(rig.settled().finished, 3);
}

}  // namespace
}  // namespace wattle::gateway
