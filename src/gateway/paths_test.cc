// Which engine a model's requests go to, and what else than completions passes.
#include <gtest/gtest.h>

#include <algorithm>

#include "gateway/rig_test.h"

namespace wattle::gateway {
namespace {

/// Two models on an engine each.
struct TwoModels {
  Upstream second;
  Rig rig;
  TwoModels()
      : rig({Role::Colocated, Role::Colocated}, 64, "", [this](GatewayOptions& options, GatewayPolicies&) {
          options.models = {"m", "org/other"};
          options.workers[0].models = {"m"};
          options.workers[1].models = {"org/other"};
          options.workers[1].url = second.url();
        }) {}
  std::string ask(const std::string& model) {
    return rig.ask(Rig::post(R"({"model":")" + model + R"(","messages":[],"user":"","stream":false})"));
  }
  std::string admin(const std::string& bytes) {
    net::RawClient client(rig.gateway->admin_port());
    client.send(bytes);
    return client.response();
  }
};

TEST(Paths, AModelsRequestsGoToEnginesThatHaveIt) {
  TwoModels both;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(both.ask("m").substr(9, 3), "200");
    EXPECT_EQ(both.ask("org/other").substr(9, 3), "200");
  }
  EXPECT_EQ(both.ask("third").substr(9, 3), "404");
  both.rig.settled();
  EXPECT_EQ(both.rig.upstream.seen.size(), 5U);
  EXPECT_EQ(both.second.seen.size(), 5U);
  for (const auto& body : both.second.seen) EXPECT_EQ(body["model"], "org/other");
  for (const char* name : {"org/other", "org%2Fother", "%6frg%2fother"}) {
    const auto answer = both.rig.ask(std::string("GET /v1/models/") + name + " HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_NE(answer.find(R"("id":"org/other")"), std::string::npos) << answer;
  }
  EXPECT_EQ(both.rig.ask("GET /v1/models/org%2 HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "404");
  EXPECT_NE(both.rig.admin("/workers/1").find(R"("models":["org/other"])"), std::string::npos);
}

TEST(Paths, AModelWithoutAnEngineIsNotReadyAndTheOthersAre) {
  TwoModels both;
  EXPECT_EQ(both.admin("DELETE /workers/1 HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "202");
  EXPECT_EQ(both.ask("org/other").substr(9, 3), "503");
  EXPECT_EQ(both.ask("m").substr(9, 3), "200");
  const auto worker = [&](const std::string& rest) {
    return both.admin(Rig::post(R"({"url":")" + both.second.url() + "\"," + rest + "}", "/workers")).substr(9, 3);
  };
  EXPECT_EQ(worker(R"("model_id":"nobody's")"), "400");
  EXPECT_EQ(worker(R"("models":["m",7])"), "400");
  EXPECT_EQ(worker(R"("models":["m","org/other"])"), "202");
  EXPECT_EQ(both.ask("org/other").substr(9, 3), "200");
}

TEST(Paths, WorkersOfARecipeThatDecidesForAllHaveAllModels) {
  Rig rig;
  GatewayOptions options;
  options.unready_wait = Span();
  options.models = {"m", "o"};
  options.workers.emplace_back();
  options.workers.back().url = rig.upstream.url();
  options.workers.back().models = {"m"};
  GatewayPolicies policies;
  policies.hosts_clocks = true;
  journal::Sink sink;
  const auto made = Gateway::start(options, std::move(policies), sink);
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message().find("same models"), std::string::npos);
}

TEST(Paths, WhatElseEnginesAnswerPasses) {
  Rig rig({Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies&) {
    options.pass_paths = {"/form", "/any/*"};
  });
  const auto status = [&](const std::string& path, const std::string& body) {
    return rig.ask(Rig::post(body, path)).substr(9, 3);
  };
  EXPECT_EQ(status("/v1/embeddings?x=1", R"({"model":"m","input":["some text","more"]})"), "200");
  EXPECT_EQ(status("/tokenize", R"({"prompt":"some text"})"), "200") << "one model: it need not be said";
  EXPECT_EQ(status("/v1/messages", R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}]})"),
            "200");
  EXPECT_EQ(status("/any/thing", R"({"x":[1]})"), "200");
  EXPECT_EQ(rig.ask(Rig::post("--b\r\nabc", "/form", "Content-Type: multipart/form-data; boundary=b\r\n")).substr(9, 3),
            "200");
  EXPECT_EQ(status("/v1/embeddings", R"({"model":"x","input":"y"})"), "404");
  EXPECT_EQ(status("/v1/embeddings", R"({"model":"m","input":"y","kv_transfer_params":{}})"), "400");
  for (const char* path : {"/v1/load_lora_adapter", "/flush_cache", "/sleep", "/update_weights_from_disk", "/shutdown",
                           "/any/../flush_cache", "/any/%2e%2e/flush_cache", "/any//x"}) {
    EXPECT_EQ(status(path, R"({"model":"m"})"), "404") << path;
  }
  EXPECT_EQ(rig.ask("GET /v1/embeddings HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "405");
  EXPECT_EQ(rig.settled().finished, 5);
  EXPECT_EQ(rig.upstream.paths,
            (std::vector<std::string>{"/v1/embeddings?x=1", "/tokenize", "/v1/messages", "/any/thing", "/form"}));
  EXPECT_NE(rig.upstream.headers.back().find("multipart/form-data; boundary=b"), std::string::npos);
  std::ranges::sort(rig.sink.all, {}, [](const Outcome& o) { return o.request.id; });  // loops end theirs side by side
  EXPECT_EQ(rig.sink.all.at(1).request.prompt_tokens, 1) << "tokenizing computes nothing";
}

TEST(Paths, AResponsesStreamIsCountedAndHasAnEnd) {
  Rig rig;
  const auto stream = [&](const char* user) {
    return rig.ask(
        Rig::post(R"({"model":"m","input":"x","stream":true,"user":")" + std::string(user) + "\"}", "/v1/responses"),
        true);
  };
  EXPECT_NE(stream("").find("event: response.completed\n"), std::string::npos);
  EXPECT_NE(stream("cut").find("engine_failed"), std::string::npos);
  const auto counts = rig.settled();
  EXPECT_EQ(counts.finished, 1);
  EXPECT_EQ(counts.failed, 1);
  EXPECT_EQ(rig.sink.all.at(0).output_tokens, 3);
  EXPECT_EQ(rig.sink.all.at(0).request.prompt_tokens, 11);
  EXPECT_EQ(rig.sink.all.at(0).request.max_tokens, 4096) << "as of a chat that states none";
}

TEST(Paths, AnAnswerOfResponsesThatComesAsAWholeDecodes) {
  Rig rig;
  rig.upstream.hangs = true;
  net::RawClient whole(rig.gateway->port()), embedding(rig.gateway->port());
  whole.send(Rig::post(R"({"model":"m","input":"x"})", "/v1/responses"));
  embedding.send(Rig::post(R"({"model":"m","input":"x"})", "/v1/embeddings"));
  EXPECT_TRUE(eventually([&] {
    const auto view = rig.view();
    return view["decode_requests"] == 1 && view["waiting_requests"] == 1;
  }));
}

TEST(Paths, BrowsersMayReadWhereTheirOriginIsKnown) {
  const std::string origin = "Origin: https://ui.example\r\n";
  const std::string preflight = "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + origin +
                                "Access-Control-Request-Headers: authorization\r\n\r\n";
  Rig closed;
  EXPECT_EQ(closed.ask(preflight).find("Access-Control"), std::string::npos);
  for (const char* known : {"*", "https://ui.example"}) {
    Rig rig({Role::Colocated}, 64, "",
            [&](GatewayOptions& options, GatewayPolicies&) { options.cors_origins = {known}; });
    const std::string answer = rig.ask(preflight);
    EXPECT_EQ(answer.substr(9, 3), "204");
    EXPECT_NE(answer.find("Access-Control-Allow-Headers: authorization\r\n"), std::string::npos) << answer;
    const std::string allow = std::string("Access-Control-Allow-Origin: ") + known + "\r\n";
    for (const std::string& got :
         {answer, rig.ask(Rig::chat("", false, origin)), rig.ask(Rig::chat("", true, origin), true),
          rig.ask(Rig::post("{", "/v1/completions", origin))}) {
      EXPECT_NE(got.find(allow), std::string::npos) << got;
      EXPECT_NE(got.find("Expose-Headers: Retry-After, X-Request-Id, "), std::string::npos) << got;
      EXPECT_NE(got.find("X-Wattle-Energy-Meters\r\n"), std::string::npos) << got;
    }
    EXPECT_EQ(rig.ask(Rig::chat("", false)).find("Access-Control"), std::string::npos) << "not asked by a page";
  }
}

TEST(Paths, FieldsThatConnectionNamesGoNoFurther) {
  Rig rig;
  const std::string answer = rig.ask(Rig::chat("", false,
                                               "Connection: Upgrade , HTTP2-Settings\r\nUpgrade: h2c\r\n"
                                               "HTTP2-Settings: AAMAAABkAAQAAP__\r\nX-Mine: stays\r\n"));
  EXPECT_EQ(answer.substr(9, 3), "200") << answer;
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 ")) << "no upgrade was made";
  const std::lock_guard lock(rig.upstream.mutex);
  EXPECT_EQ(rig.upstream.headers.at(0).find("HTTP2-Settings"), std::string::npos) << rig.upstream.headers.at(0);
  EXPECT_EQ(rig.upstream.headers.at(0).find("h2c"), std::string::npos);
  EXPECT_NE(rig.upstream.headers.at(0).find("X-Mine: stays"), std::string::npos);
}

TEST(Paths, WhatIsNotSpokenIsSaid) {
  Rig rig;
  const std::string packed = rig.ask(Rig::post("\x1f\x8b", "/v1/completions", "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(packed.substr(9, 3), "415");
  EXPECT_NE(packed.find("Accept-Encoding: identity\r\n"), std::string::npos);
  net::RawClient client(rig.gateway->port());
  client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  const std::string frames = client.all();
  ASSERT_GT(frames.size(), 35U);
  EXPECT_EQ(frames[3], 4) << "SETTINGS";
  EXPECT_EQ(frames[12], 7) << "GOAWAY";
  EXPECT_EQ(frames.size(), 9U + 9U + static_cast<unsigned char>(frames[11]));
  EXPECT_EQ(frames[25], 13) << "HTTP_1_1_REQUIRED";
  EXPECT_NE(frames.find("use HTTP/1.1"), std::string::npos);
}

TEST(Paths, WhatOneEngineComputesGoesToAColocatedOneBesideAPair) {
  Rig rig({Role::Prefill, Role::Decode, Role::Colocated});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(rig.ask(Rig::post(R"({"model":"m","messages":[],"n":2})")).substr(9, 3), "200");
    EXPECT_EQ(rig.ask(Rig::post(R"({"model":"m","input":"x"})", "/v1/embeddings")).substr(9, 3), "200");
    for (const char* several : {R"("prompt":["a","b"])", R"("prompt":[[1,2],[3]])", R"("prompt":"a","best_of":2)"}) {
      EXPECT_EQ(rig.ask(Rig::post(R"({"model":"m",)" + std::string(several) + "}", "/v1/completions")).substr(9, 3),
                "200");
    }
  }
  EXPECT_EQ(rig.settled().finished, 15);
  for (const auto& record : rig.sink.all) EXPECT_EQ(record.prefill_instance, InstanceId(2));
  for (const auto& body : rig.upstream.seen) EXPECT_FALSE(body.contains("kv_transfer_params")) << body;
}

}  // namespace
}  // namespace wattle::gateway
