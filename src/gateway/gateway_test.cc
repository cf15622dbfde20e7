#include "gateway/gateway.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "gateway/leg_nixl.h"
#include "gateway/rig_test.h"
#include "net/await_test.h"
#include "net/openai.h"
#include "telemetry/fpm_socket.h"

namespace wattle::gateway {
namespace {

TEST(Gateway, RelaysAStreamAndCountsItsTokens) {
  Rig rig;
  const std::string answer = rig.ask(Rig::chat("", true), true);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
  EXPECT_NE(answer.find("X-Request-Id: wattle-"), std::string::npos);
  for (int i = 0; i < 5; ++i) EXPECT_NE(answer.find(Upstream::token(i)), std::string::npos) << i;
  EXPECT_NE(answer.find("data: [DONE]\n\n"), std::string::npos);
  EXPECT_EQ(rig.settled().finished, 1);
  const Outcome& o = rig.sink.all.at(0);
  EXPECT_EQ(o.output_tokens, 7) << "the engine's own count";
  EXPECT_EQ(o.gaps_within_itl, 6);
  EXPECT_EQ(o.decode_instance, InstanceId(0));
  EXPECT_TRUE(o.request.arrival <= o.dispatched && o.dispatched <= o.first_token && o.first_token <= o.left);
}

TEST(Gateway, AsksTheEngineForUsageAndKeepsItToItself) {
  Rig rig;
  for (const char* mode : {"", "split-usage"}) {
    const std::string answer = rig.ask(Rig::chat(mode, true), true);
    EXPECT_EQ(rig.upstream.seen.back()["stream_options"]["include_usage"], true);
    EXPECT_EQ(answer.find("usage"), std::string::npos) << answer;
    EXPECT_NE(answer.find("t4"), std::string::npos) << answer;
    EXPECT_NE(answer.find("data: [DONE]\n\n"), std::string::npos) << answer;
  }
  EXPECT_EQ(rig.output_tokens(), 14) << "seven each by the engine's count, five were seen";
  const std::string asked =
      rig.ask(Rig::post(R"({"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true}})"), true);
  EXPECT_NE(asked.find(R"("usage":{"prompt_tokens":9)"), std::string::npos) << "the client asked for it itself";
  rig.settled();
  EXPECT_NE(rig.ask("GET /v1/models/m HTTP/1.1\r\nHost: h\r\n\r\n").find(R"("id":"m")"), std::string::npos);
  EXPECT_EQ(rig.ask("GET /v1/models/x HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "404");
}

TEST(Gateway, RelaysAWholeAnswer) {
  Rig rig;
  const std::string answer =
      rig.ask(Rig::post(R"({"model":"m","prompt":[1,2,3]})", "/v1/completions", "X-Request-Id: abc\r\n"));
  EXPECT_TRUE(answer.ends_with(R"("usage":{"completion_tokens":5}})")) << answer;
  EXPECT_NE(answer.find("X-Request-Id: abc"), std::string::npos);
  EXPECT_EQ(rig.output_tokens(), 5);
  EXPECT_EQ(rig.sink.all.at(0).request.prompt_tokens, 3);
  EXPECT_EQ(Upstream::name_of(rig.upstream.request_ids.at(0)), "abc");
}

TEST(Gateway, SaysWhatIsWrongWithARequest) {
  Rig rig;
  const auto expect = [&](const std::string& bytes, const char* status, const char* part) {
    const std::string answer = rig.ask(bytes);
    EXPECT_EQ(answer.substr(9, 3), status) << answer;
    EXPECT_NE(answer.find(part), std::string::npos) << answer;
    EXPECT_NE(answer.find(R"({"error":{"message":)"), std::string::npos) << answer;
  };
  expect(Rig::post("{"), "400", "invalid_json");
  expect(Rig::post(R"({"model":"m","messages":[}])"), "400", "invalid_json");
  expect(Rig::post(R"({"model":"m","messages":[]} x)"), "400", "invalid_json");
  expect(Rig::post(R"([1])"), "400", "invalid_json");
  expect(Rig::post(R"({"messages":[]})"), "400", R"("param":"model")");
  expect(Rig::post(R"({"model":"m"})"), "400", R"("param":"messages")");
  expect(Rig::post(R"({"model":"m","messages":[],"stream":1})"), "400", R"("param":"stream")");
  expect(Rig::post(R"({"model":"m","messages":[],"max_tokens":-2})"), "400", R"("param":"max_tokens")");
  expect(Rig::post(R"({"model":"m","messages":[],"max_tokens":9999999999})"), "400", "from 1 to 2147483647");
  expect(Rig::post(R"({"model":"other","messages":[]})"), "404", "model_not_found");
  expect(Rig::post(std::string(5000, ' ')), "413", "4096 bytes (--max-body-bytes)");
  const std::string deep = R"({"model":"m","messages":[],"x":)" + std::string(70, '[') + std::string(70, ']') + "}";
  expect(Rig::post(deep), "400", "deeper than 64");
  expect("GET /v1/chat/completions HTTP/1.1\r\nHost: h\r\n\r\n", "405", "POST");
  expect("GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", "404", "not_found");
  expect("BAD\r\n\r\n", "400", "malformed");
  EXPECT_EQ(rig.gateway->counts().arrived, 0);
  EXPECT_NE(rig.ask("GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n").find(R"("id":"m")"), std::string::npos);
  EXPECT_EQ(rig.ask("GET /health HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "200");
}

TEST(Gateway, RefusesWhenFullAndWhenNothingIsReady) {
  Rig full({Role::Colocated}, 1);
  net::RawClient first(full.gateway->port());
  first.send(Rig::chat("park", true));
  first.until("t0");
  const std::string busy = full.ask(Rig::chat("", false));
  EXPECT_EQ(busy.substr(9, 3), "429");
  EXPECT_NE(busy.find("Retry-After: 1"), std::string::npos);
  first.close();
  const auto counts = full.settled();
  EXPECT_EQ(counts.rejected, 1);
  EXPECT_EQ(counts.cancelled, 1);

  Rig empty(std::vector<Role>{});
  const std::string none = empty.ask(Rig::chat("", false));
  EXPECT_EQ(none.substr(9, 3), "503");
  EXPECT_NE(none.find("Retry-After: 1"), std::string::npos);
  EXPECT_EQ(empty.settled().rejected, 1);
}

TEST(Gateway, AClientThatLeavesStopsTheEngine) {
  Rig rig;
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat("park", true));
  client.until("t0");
  client.close();
  await([&] { return rig.upstream.gone != 0; });
  EXPECT_EQ(rig.settled().cancelled, 1);
  EXPECT_EQ(rig.sink.all.at(0).output_tokens, 1);
}

TEST(Gateway, AnEngineThatDiesIsAnErrorAndOthersGoOn) {
  Rig rig;
  net::RawClient other(rig.gateway->port());
  other.send(Rig::chat("park", true));
  other.until("t0");
  EXPECT_EQ(rig.ask(Rig::chat("die", true)).substr(9, 3), "502");
  for (const char* mode : {"die-midway", "no-done"}) {
    const std::string cut = rig.ask(Rig::chat(mode, true), true);
    EXPECT_NE(cut.find("t4"), std::string::npos);
    EXPECT_NE(cut.find("data: {\"error\":{"), std::string::npos) << cut;
    EXPECT_EQ(cut.find("data: {\"cho\r\n"), std::string::npos) << "half an event was relayed";
    EXPECT_EQ(cut.find("[DONE]"), std::string::npos);
  }
  EXPECT_EQ(rig.ask(Rig::chat("refuse", false)).substr(9, 3), "422");
  rig.upstream.pool.at(0).post([&] {
    rig.upstream.parked.at(0)->write(
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    rig.upstream.parked.at(0)->finish();
  });
  EXPECT_NE(other.until("0\r\n\r\n").find("[DONE]"), std::string::npos);
  const auto counts = rig.settled();
  EXPECT_EQ(counts.failed, 3);
  EXPECT_EQ(counts.rejected, 1);
  EXPECT_EQ(counts.finished, 1);
}

TEST(Gateway, DrivesPrefillThenDecode) {
  Rig rig({Role::Prefill, Role::Decode});
  const std::string answer = rig.ask(Rig::chat("", true), true);
  EXPECT_NE(answer.find("[DONE]"), std::string::npos) << answer;
  ASSERT_EQ(rig.upstream.seen.size(), 2U);
  const auto& prefill = rig.upstream.seen[0];
  const auto& decode = rig.upstream.seen[1];
  EXPECT_EQ(prefill["stream"], false);
  EXPECT_EQ(prefill["max_tokens"], 1);
  EXPECT_EQ(prefill["kv_transfer_params"]["do_remote_decode"], true);
  EXPECT_EQ(decode["stream"], true);
  EXPECT_EQ(decode["max_tokens"], 5);
  EXPECT_EQ(decode["kv_transfer_params"],
            nlohmann::json::parse(R"({"remote_block_ids":[[1,2]],"do_remote_prefill":true})"));
  EXPECT_EQ(rig.upstream.request_ids[0], rig.upstream.request_ids[1]);
  EXPECT_EQ(rig.settled().finished, 1);
  EXPECT_EQ(rig.sink.all.at(0).prefill_instance, InstanceId(0));
  EXPECT_EQ(rig.sink.all.at(0).decode_instance, InstanceId(1));

  rig.ask(Rig::chat("no-params", true), true);
  EXPECT_FALSE(rig.upstream.seen.at(3).contains("kv_transfer_params"));
  EXPECT_EQ(rig.ask(Rig::post(R"({"model":"m","messages":[],"n":2})")).substr(9, 3), "400");
}

TEST(Gateway, AdminPlaneListsAddsAndRemovesWorkers) {
  Rig rig;
  const auto admin = [&](const std::string& bytes) { return rig.ask_admin(bytes); };
  EXPECT_NE(admin("GET /workers HTTP/1.1\r\nHost: h\r\n\r\n").find(R"("status":"ready")"), std::string::npos);
  const std::string body = R"({"url":")" + rig.upstream.other_url() + R"("})";
  EXPECT_EQ(admin(Rig::post(body, "/workers")).substr(9, 3), "202");
  EXPECT_EQ(admin("DELETE /workers/0 HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "202");
  EXPECT_EQ(admin("GET /workers/7 HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "404");
  EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "200");
  rig.settled();
  EXPECT_EQ(rig.sink.all.at(0).decode_instance, InstanceId(1));
  const std::string metrics = admin("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(metrics.find("wattle_gateway_belief_extrapolations_total 17\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("wattle_gateway_length_fallbacks_total 0\n"), std::string::npos);
  EXPECT_NE(metrics.find("wattle_gateway_requests_total{fate=\"finished\"} 1\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("wattle_gateway_responses_total{code=\"200\"} 1\n"), std::string::npos);
  EXPECT_NE(metrics.find("wattle_gateway_output_sequence_tokens_sum 5\n"), std::string::npos);
  // The data plane does not serve it.
  EXPECT_EQ(rig.ask("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "404");
}

TEST(Gateway, WorkersThatCameAndWentLeaveNoSeriesBehind) {
  Rig rig;
  const auto admin = [&](const std::string& bytes) { return rig.ask_admin(bytes); };
  rig.ask(Rig::chat("die", false));
  rig.settled();
  const std::string before = Rig::body_of(rig.admin("/metrics"));
  EXPECT_NE(before.find("worker_failures_total{worker=\"" + rig.upstream.url() + "\"} 2\n"), std::string::npos)
      << before;
  for (int i = 1; i <= 1500; ++i) {
    const std::string url = "http://127.0.0.1:" + std::to_string(20'000 + i);
    ASSERT_EQ(admin(Rig::post(R"({"url":")" + url + R"("})", "/workers")).substr(9, 3), "202");
    ASSERT_EQ(admin("DELETE /workers/" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "202");
  }
  const std::string after = Rig::body_of(rig.admin("/metrics"));
  EXPECT_EQ(after.find(":20001"), std::string::npos) << after;
  EXPECT_LT(after.size(), before.size() + 200) << "numbers may have more digits, series there are none more";
  EXPECT_EQ(admin("DELETE /workers/0 HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "202");
  const std::string gone = Rig::body_of(rig.admin("/metrics"));
  EXPECT_EQ(gone.find(rig.upstream.url()), std::string::npos) << gone;
  EXPECT_NE(gone.find("worker_failures_total{worker=\"(gone)\"} 2\n"), std::string::npos) << "the sum does not fall";
}

TEST(Gateway, MetricsDoNotTakeUnmeteredEnergyForZero) {
  Rig rig;
  rig.ask(Rig::chat("", false));
  rig.settled();
  const std::string metrics = Rig::body_of(rig.admin("/metrics"));
  EXPECT_NE(metrics.find("# HELP wattle_gateway_energy_joules_total "), std::string::npos);
  EXPECT_EQ(metrics.find("joules_total{"), std::string::npos) << "no agent, no meter: unknown";
  EXPECT_NE(metrics.find("\nwattle_gateway_unmetered_seconds_total "), std::string::npos);
}

TEST(Gateway, LooksAtStreamsWhereNoStepReportsCome) {
  Rig rig;
  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat("park", true));
  client.until("t0");
  net::RawClient other(rig.gateway->port());
  other.send(Rig::chat("park", true));
  other.until("t0");
  const auto view = rig.view();
  EXPECT_EQ(view["source"], "streams");
  EXPECT_EQ(view["telemetry"], "fresh");
  EXPECT_EQ(view["decode_requests"], 2) << view;
  EXPECT_EQ(view["kv_tokens"], 2 * (4 + 1)) << "prompt and first token of each";
  net::RawClient whole(rig.gateway->port());
  whole.send(Rig::chat("silent", false));
  // No first token of an answer that comes as a whole will be seen.
  EXPECT_TRUE(eventually([&] {
    const auto now = rig.view();
    return now["decode_requests"] == 3 && now["waiting_requests"] == 0;
  }));
  whole.close();
  client.close();
  other.close();
  rig.settled();
}

TEST(Gateway, StepReportsGoBeforeStreamsUntilTheyStop) {
  auto publisher = telemetry::FpmPublisher::bind("tcp://127.0.0.1:*", "engine").value();
  Rig rig({Role::Colocated}, 64, publisher.endpoint());
  StepReport report;
  report.shape.decode_requests = 7;
  report.shape.decode_kv_tokens = 700;
  report.kv_tokens = 900;
  report.clock = MegaHertz(1005);
  const auto publish_until_shown = [&] {
    nlohmann::json view;
    await([&] {
      publisher.publish(report, Instant());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      view = rig.view();
      return view["source"] == "step-reports";
    });
    return view;
  };
  const auto view = publish_until_shown();
  EXPECT_EQ(view["decode_requests"], 7);
  EXPECT_EQ(view["kv_tokens"], 900);
  EXPECT_EQ(view["clock_mhz"], 1005);
  EXPECT_EQ(view["telemetry"], "fresh");

  net::RawClient client(rig.gateway->port());
  client.send(Rig::chat("park", true));
  client.until("t0");
  // Silence with a request in flight: lost, and what the streams show is better than what was reported long ago.
  await([&] { return rig.view()["telemetry"] == "lost"; });
  EXPECT_EQ(rig.view()["source"], "streams");
  EXPECT_EQ(rig.view()["decode_requests"], 1);
  const auto again = publish_until_shown();
  EXPECT_EQ(again["decode_requests"], 7);
  EXPECT_EQ(again["telemetry"], "fresh");
  client.close();
  rig.settled();
}

TEST(Gateway, AWorkerThatStartsHasItsIdBeforeItsAddress) {
  Rig rig;
  const auto admin = [&](const std::string& bytes) { return rig.ask_admin(bytes); };
  const auto put = [&](const std::string& body) {
    std::string bytes = Rig::post(body, "/workers/1");
    return admin(bytes.replace(0, 4, "PUT")).substr(9, 3);
  };
  for (const char* wrong : {"0", "-1", "1e7", "\"much\""}) {
    const std::string body = std::string(R"({"url":null,"weight":)") + wrong + "}";
    EXPECT_EQ(admin(Rig::post(body, "/workers")).substr(9, 3), "400") << wrong;
  }
  EXPECT_NE(admin(Rig::post(R"({"url":null,"tensor_parallel":2,"weight":2.5})", "/workers")).find(R"("id":"1")"),
            std::string::npos);
  EXPECT_NE(admin("GET /workers/1 HTTP/1.1\r\nHost: h\r\n\r\n").find(R"("weight":2.5)"), std::string::npos);
  EXPECT_EQ(rig.sink.joined_instance, InstanceId(1));
  EXPECT_NE(admin("GET /workers/1 HTTP/1.1\r\nHost: h\r\n\r\n").find(R"("status":"starting")"), std::string::npos);
  admin("DELETE /workers/0 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "503") << "nobody serves";
  EXPECT_EQ(put(""), "400") << "still without an address";
  EXPECT_EQ(put(R"({"url":7})"), "400");
  EXPECT_EQ(put(R"({"url":")" + rig.upstream.url() + R"("})"), "202");
  EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "200");

  const auto journal = [&](const std::string& records) {
    return admin(Rig::post(R"({"records":[)" + records + "]}", "/journal")).substr(9, 3);
  };
  const std::string phase =
      R"({"kind":"phase","age_ms":5,"mode":"enforce","worker":"1","phase":"serving","reason":"r"})";
  const std::string plan = R"({"kind":"scaling","age_ms":0,"mode":"shadow","gpus":3,"reason":"p"})";
  EXPECT_EQ(journal(phase + "," + plan), "202");
  EXPECT_EQ(journal(R"({"kind":"phase","age_ms":5,"mode":"enforce","worker":"7","phase":"serving","reason":"r"})"),
            "400")
      << "no such worker";
  EXPECT_EQ(journal(R"({"kind":"phase","age_ms":-5,"mode":"enforce","worker":"1","phase":"serving","reason":"r"})"),
            "400");
  const std::string whole =
      R"({"kind":"plan","age_ms":0,"mode":"enforce","gpus":4,"reason":"w","now_ns":5000000000,"plan":{"instances":[)"
      R"({"shape":0,"count":4,"pool":1}],"levels":[{"name":"pool","pool":1,"made_ns":4000000000,"reason":"l"}],)"
      R"("sound":true}})";
  EXPECT_EQ(journal(whole), "202");
  EXPECT_EQ(journal(R"({"kind":"plan","age_ms":0,"mode":"enforce","gpus":4,"reason":"w","plan":{}})"), "400")
      << "on whose clock are its times?";
  EXPECT_EQ(rig.sink.plans, (std::vector<std::string>{"w: 4 GPUs, pool l"}));
  ASSERT_EQ(rig.sink.planned.size(), 2U);
  EXPECT_EQ(rig.sink.planned[0].instance, InstanceId(1));
  EXPECT_EQ(rig.sink.planned[0].value, static_cast<std::int64_t>(journal::Phase::Serving));
  EXPECT_STREQ(rig.sink.planned[0].reason, "r");
  EXPECT_EQ(rig.sink.planned[1].value, 3);
  EXPECT_EQ(rig.sink.planned[1].mode, Mode::Shadow);
  rig.settled();
}

TEST(Gateway, ARegistrationTakesOverTheStepReportsOfOneThatHasLeft) {
  auto publisher = telemetry::FpmPublisher::bind("tcp://127.0.0.1:*", "engine").value();
  Rig rig({Role::Colocated}, 64, publisher.endpoint());
  const auto admin = [&](const std::string& bytes) { return rig.ask_admin(bytes); };
  const auto source_of = [&](const std::string& id) {
    return nlohmann::json::parse(Rig::body_of(rig.admin("/workers/" + id)))["view"]["source"].get<std::string>();
  };
  StepReport report;
  const auto publish_until = [&](const std::string& id, const char* source) {
    await([&] {
      publisher.publish(report, Instant());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return source_of(id) == source;
    });
  };
  publish_until("0", "step-reports");
  auto body = fmt::format(R"({{"url":"{}","step_reports":"{}"}})", rig.upstream.other_url(), publisher.endpoint());
  EXPECT_EQ(admin(Rig::post(body, "/workers")).substr(9, 3), "409") << "two engines do not publish at one place";
  admin("DELETE /workers/0 HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(admin(Rig::post(body, "/workers")).substr(9, 3), "202");
  publish_until("1", "step-reports");
  publish_until("0", "streams");  // it goes silent, although reports come on and on
  await([&] { return rig.admin("/metrics").find("wattle_gateway_report_sources 1\n") != std::string::npos; });
  rig.settled();
}

TEST(Gateway, ReadsWorkersFromText) {
  const auto worker = parse_worker("http://h:1=decode,fpm=tcp://h:2,load=orca,tp=4", "--worker").value();
  EXPECT_EQ(worker.url, "http://h:1");
  EXPECT_EQ(worker.role, Role::Decode);
  EXPECT_EQ(worker.step_reports, "tcp://h:2");
  EXPECT_EQ(worker.tensor_parallel, 4);
  EXPECT_TRUE(worker.load_reports);
  EXPECT_FALSE(parse_worker("http://h:1", "").value().load_reports);
  EXPECT_EQ(parse_worker("http://h:1", "").value().role, Role::Colocated);
  for (const char* wrong : {"", "=decode", "http://h:1=both", "http://h:1=decode,tp=0", "http://h:1=decode,tp=x",
                            "http://h:1=,fpm=", "http://h:1=decode,color=red", "http://h:1,load=page"}) {
    EXPECT_FALSE(parse_worker(wrong, "--worker")) << wrong;
  }
}

TEST(Gateway, BooksBalanceUnderConcurrency) {
  Rig rig({Role::Colocated, Role::Colocated}, 4);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&rig, t] {
      RandomStream random(t, "clients");
      for (int i = 0; i < 25; ++i) {
        net::RawClient client(rig.gateway->port());
        const char* const modes[] = {"", "", "die-midway", "park", "die"};
        const auto kind = random.below(5);
        client.send(Rig::chat(modes[kind], kind != 1, "Connection: close\r\n"));
        if (kind != 3) client.all();  // the parked are left at once
      }
    });
  }
  for (auto& thread : threads) thread.join();
  // A connection that was sent a request and closed may not have been read yet: wait for all the parked to be gone.
  rig.gateway->stop(Span::s(5));
  const journal::RequestCounts c = rig.gateway->counts();
  EXPECT_EQ(c.in_flight, 0);
  EXPECT_EQ(c.arrived, c.finished + c.rejected + c.failed + c.cancelled);
  EXPECT_EQ(c.arrived, static_cast<std::int64_t>(rig.sink.all.size()));
  EXPECT_GT(c.finished, 0);
  EXPECT_GT(c.failed, 0);
}

TEST(OpenAi, ReadsChunks) {
  const auto tokens = [](std::string_view chunk) { return net::read_chunk(chunk).tokens; };
  for (const char* done : {"[DONE]", " [DONE]", "[DONE] ", "\t[DONE]"}) EXPECT_TRUE(net::read_chunk(done).done) << done;
  EXPECT_FALSE(net::read_chunk("[DONE] x").done);
  EXPECT_EQ(tokens(R"({"choices":[{"delta":{"content":"x"}}]})"), 1);
  EXPECT_EQ(tokens(R"({"choices":[{"text": "x"}]})"), 1);
  EXPECT_EQ(tokens(R"({"choices":[{"delta":{"reasoning":"x"},"finish_reason":null}]})"), 1);
  EXPECT_EQ(tokens(R"({"choices":[{"delta":{"role":null,"content":null,"reasoning_content":"x"}}]})"), 1);
  EXPECT_EQ(tokens(R"({"choices":[{"delta":{"content":"x"}},{"index":1,"delta":{"content":"y"}}]})"), 2);
  EXPECT_EQ(tokens(R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})"), 0);
  EXPECT_EQ(tokens(R"({"choices":[{"delta":{"content":""},"finish_reason":null}]})"), 1) << "half a character";
  EXPECT_EQ(tokens(R"({"choices":[{"delta":{"content":""},"finish_reason":"stop"}]})"), 0);
  EXPECT_EQ(tokens(R"({"choices":[{"delta":{},"finish_reason":"stop","note":"\"content\":\"x"}]})"), 0);
  EXPECT_EQ(tokens(R"({"choices":[{"delta":{"content":"a\\"}}],"x":{"text":"y"}})"), 2) << "an escaped backslash";
  EXPECT_EQ(tokens(R"({"choices":[{"delta":{"cont)"), 0);
  const auto usage = net::read_chunk(
      R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":17,"prompt_tokens_details":{"cached_tokens":2}}})");
  EXPECT_TRUE(usage.usage_only);
  EXPECT_EQ(usage.completion_tokens, 17);
  EXPECT_EQ(usage.prompt_tokens, 3);
  EXPECT_EQ(usage.cached_tokens, 2);
  const auto both = net::read_chunk(R"({"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":1}})");
  EXPECT_FALSE(both.usage_only);
  EXPECT_EQ(both.tokens, 1);
  EXPECT_EQ(both.completion_tokens, 1);
  EXPECT_FALSE(net::read_chunk(R"({"choices":[],"usage":null})").usage_only);
  EXPECT_FALSE(net::read_chunk(R"({"choices":[{"x":{"choices":-1}}],"usage":{"completion_tokens":1}})").usage_only);
}

/// Bounded, deterministic mutations of good inputs: nothing crashes, refusals are 4xx or 505, what is accepted is sane.
TEST(Fuzz, RequestBytesAndBodies) {
  RandomStream random(7, "fuzz");
  const std::string good = Rig::post(
      R"({"model":"m","messages":[{"role":"user","content":"a\u00e9\n"}],"n":1,"max_tokens":3,"stream":true})");
  const std::string alphabet = "{}[]\",:\\\r\n\t 0-9eE+.xX\x00\xff";
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (std::uint64_t k = 1 + random.below(4); k > 0; --k) {
      const std::size_t at = random.below(bytes.size());
      switch (random.below(4)) {
        case 0:
          bytes[at] = alphabet[random.below(alphabet.size())];
          break;
        case 1:
          bytes.erase(at, 1 + random.below(8));
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(random.below(256)));
          break;
        default:
          bytes.insert(at, bytes.substr(random.below(bytes.size()), random.below(20)));
          break;
      }
      if (bytes.empty()) bytes = "x";
    }
    net::RequestParser parser({1024, 2048});
    std::string_view rest = bytes;
    while (!rest.empty() && !parser.done() && !parser.problem()) {
      const std::size_t n = parser.feed(rest);
      if (n == 0) break;
      rest.remove_prefix(n);
    }
    if (parser.problem()) {
      const int status = parser.problem().status;
      ASSERT_TRUE(status == 400 || status == 413 || status == 431 || status == 501 || status == 505) << status;
    }
    const std::string body = padded(parser.done() ? parser.body() : bytes.substr(bytes.find("\r\n\r\n") + 1));
    const auto asked = net::read_completion(net::ApiPath::Chat, body);
    if (asked) {
      ASSERT_GE(asked->n, 1);
      ASSERT_GE(asked->prompt.bytes, 0);
      const auto prefill = nixl::prefill_body(body);
      ASSERT_TRUE(prefill.has_value());
      ASSERT_TRUE(nlohmann::json::accept(nixl::decode_body(body, "{}"))) << body;
    } else {
      ASSERT_EQ(asked.error().status, 400);
    }
    (void)net::read_chunk(body);
    (void)nixl::transfer_params(body);
  }
}

}  // namespace
}  // namespace wattle::gateway
