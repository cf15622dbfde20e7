// Which engine a request goes to where engines stand at several sites, are for several types of requests, or order by
// urgency themselves; and what is known of an engine that has been registered.
#include <gtest/gtest.h>

#include <memory>

#include "gateway/rig_test.h"
#include "net/await_test.h"
#include "policy/admission/bounded.h"
#include "policy/queueing/laxity.h"

namespace wattle::gateway {
namespace {

std::string tenant(const std::string& name) { return "X-Wattle-Tenant: " + name + "\r\n"; }

/// An engine at each of two sites; "home" may be computed at the second alone.
void at_two_sites(GatewayOptions& options, GatewayPolicies&) {
  options.sites = std::vector<carbon::SiteRates>(2);
  options.sites[0].name = "here";
  options.sites[1].name = "there";
  options.workers[1].site = "there";
  options.service.tenants = {{"home", TierId(), SiteId(), 0, 1.0, {}}};
  options.service.tenants[0].residency.allow(SiteId(1));
}

nlohmann::json call(Rig& rig, const std::string& method, const std::string& path, const std::string& body,
                    const std::string& status) {
  net::RawClient client(rig.gateway->admin_port());
  client.send(method + " " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body);
  const std::string answer = client.response();
  EXPECT_EQ(answer.substr(9, 3), status) << method << " " << path << " " << body << "\n" << answer;
  return nlohmann::json::parse(Rig::body_of(answer), nullptr, false);
}

TEST(Places, ATenantsRequestsStayAtItsSites) {
  Rig rig({Role::Colocated, Role::Colocated}, 64, "", at_two_sites);
  for (int i = 0; i < 6; ++i) {
    rig.ask(Rig::chat("", false, tenant(i % 2 == 0 ? "home" : "other")));
    rig.settled();
  }
  ASSERT_EQ(rig.sink.all.size(), 6U);
  for (std::size_t i = 0; i < 6; i += 2) EXPECT_EQ(rig.sink.all[i].decode_instance, InstanceId(1));
  EXPECT_TRUE(std::ranges::any_of(rig.sink.all, [](const Outcome& o) { return o.decode_instance == InstanceId(0); }));
  // With its site's engine gone for good it is refused, and counted; nobody else is.
  call(rig, "POST", "/journal",
       R"({"records":[{"kind":"phase","age_ms":0,"mode":"enforce","reason":"","phase":"gone","worker":"1"}]})", "202");
  EXPECT_EQ(rig.ask(Rig::chat("", false, tenant("home"))).substr(9, 3), "503");
  EXPECT_EQ(rig.ask(Rig::chat("", false, tenant("other"))).substr(9, 3), "200");
  EXPECT_EQ(rig.settled().rejected, 1);
}

TEST(Places, TheWayFromAnOriginIsPartOfTheTimeToFirstToken) {
  Rig rig({Role::Colocated, Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies& policies) {
    at_two_sites(options, policies);
    options.trips = {Span(), Span::ms(80)};
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // nothing arrives before the gateway is there
  for (const char* origin : {"here", "there"}) {
    rig.ask(Rig::chat("", true, std::string("X-Wattle-Origin: ") + origin + "\r\n"), true);
    rig.settled();
  }
  ASSERT_EQ(rig.sink.all.size(), 2U);
  const auto before_dispatch = [&](std::size_t i) {
    return rig.sink.all[i].dispatched - rig.sink.all[i].request.arrival;
  };
  EXPECT_GE(before_dispatch(1), Span::ms(80));
  EXPECT_GE(rig.sink.all[1].first_token - rig.sink.all[1].request.arrival, Span::ms(80));
}

TEST(Places, AnEngineIsAskedForItsLoadWithEachRequestWhereThatIsWanted) {
  for (const bool wanted : {false, true}) {
    Rig rig({Role::Colocated}, 64, "",
            [&](GatewayOptions& options, GatewayPolicies&) { options.workers[0].load_reports = wanted; });
    nlohmann::json view;
    // What it said is believed for a second, in which a busy machine may not come to look.
    for (int i = 0; i < 100 && !view.contains("gauges"); ++i) {
      rig.ask(Rig::chat("", false, "Endpoint-Load-Metrics-Format: json\r\n"));
      rig.settled();
      view = call(rig, "GET", "/workers", "", "200")["workers"][0]["view"];
      if (!wanted) break;
    }
    const std::lock_guard lock(rig.upstream.mutex);
    EXPECT_EQ(rig.upstream.headers.back().find("endpoint-load-metrics-format: json\n") != std::string::npos, wanted);
    EXPECT_EQ(rig.upstream.headers.back().find("Endpoint"), std::string::npos) << "the client's own goes no further";
    EXPECT_EQ(view.contains("gauges"), wanted);
    if (!wanted) continue;
    EXPECT_EQ(view["gauges"]["waiting"], 3);
    EXPECT_EQ(view["gauges"]["kv_share"], 0.5);
    EXPECT_EQ(view["waiting_requests"], 3) << "none of them is ours";
  }
}

TEST(Places, GaugesThatCannotBeReadOnceAreReadAgain) {
  net::LoopPool pool(1);
  std::atomic<int> waiting = 3;  // -1: none is stated
  std::atomic<int> unread = 0;
  auto engine = net::HttpServer::listen(pool, {}, [&](const std::shared_ptr<net::Exchange>& e) {
    if (e->path() == "/get_load") return e->respond(404, "text/plain", "");
    if (e->path() == "/v1/loads" && waiting < 0) ++unread;
    e->respond(200, "application/json",
               waiting < 0 ? "{}" : fmt::format("[{{\"num_waiting_reqs\":{}}}]", waiting.load()));
  });
  {
    Rig rig({Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
      options.workers[0].url = fmt::format("http://127.0.0.1:{}", (*engine)->port());
      options.probe_health = true;
      options.gauges_period = Span::ms(5);
    });
    const auto sees = [&](int count) { return rig.view().value("waiting_requests", 0) == count; };
    await([&] { return sees(3); });
    waiting = -1;
    await([&] { return unread >= 3; });
    waiting = 4;
    await([&] { return sees(4); });
  }
  engine->reset();
  pool.stop();
}

TEST(Places, EnginesThatOrderByPriorityHearHowUrgentARequestIs) {
  for (const bool on : {false, true}) {
    for (const bool laxity : {false, true}) {
      Rig rig({Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies& policies) {
        options.service.tenants = {{"shop", TierId(), SiteId(), 5, 1.0, {}}};
        options.engine_priority = on;
        if (laxity) {
          policies.dispatch.queueing.policy = std::make_shared<policy::LeastLaxityFirst>(policy::ServiceOptions{});
        }
      });
      const std::string body = R"({"model":"m","messages":[],"max_tokens":)";
      const auto asked = [&](const std::string& rest, const std::string& headers) {
        rig.ask(Rig::post(body + rest + "}", "/v1/chat/completions", headers));
        const std::lock_guard lock(rig.upstream.mutex);
        return rig.upstream.seen.back();
      };
      EXPECT_EQ(asked(R"(5,"priority":3)", tenant("shop"))["priority"], 3) << "the client has said it";
      const auto first = asked("5", tenant("shop"));
      const auto longer = asked("5000", "");
      if (!on) {
        EXPECT_FALSE(first.contains("priority") || longer.contains("priority"));
      } else if (laxity) {
        EXPECT_LT(first["priority"], longer["priority"]) << "vLLM serves smaller ones first";
      } else {
        EXPECT_EQ(first["priority"], -5);
        EXPECT_FALSE(longer.contains("priority")) << "it has none";
      }
    }
  }
}

TEST(Places, OneMoreUrgentTakesThePlaceOfOneThatHasNoTokenYetAndOfNoOther) {
  for (const bool answered : {false, true}) {
    Rig rig({Role::Colocated}, 64, "", [](GatewayOptions&, GatewayPolicies& policies) {
      policies.dispatch.admission.policy =
          std::make_shared<policy::BoundedAdmission>(policy::BoundedAdmissionOptions{1, 64});
      policy::ServiceOptions options;
      options.preemptive = true;
      policies.dispatch.queueing.policy = std::make_shared<policy::EarliestDeadlineFirst>(options);
    });
    const auto expecting = [](int tokens) {
      return "X-Wattle-Predicted-Output-Tokens: " + std::to_string(tokens) + "\r\n";
    };
    net::RawClient patient(rig.gateway->port());
    patient.send(Rig::chat(answered ? "park" : "silent-at-first", true, expecting(100'000)));
    if (answered) {
      await([&] { return rig.upstream.parked_count >= 1; });
      await([&] { return rig.view().at("decode_requests") == 1; });
    } else {
      await([&] { return rig.gateway->counts().held + 1 <= rig.gateway->counts().in_flight; });
      await([&] { return rig.upstream.seen_count() >= 1; });  // it has reached the engine
    }
    net::RawClient urgent(rig.gateway->port());
    urgent.send(Rig::chat("", true, expecting(1)));
    if (answered) {
      await([&] { return rig.gateway->counts().held >= 1; });
      EXPECT_EQ(rig.upstream.gone, 0);
      continue;
    }
    EXPECT_NE(urgent.until("0\r\n\r\n").find("[DONE]"), std::string::npos);
    EXPECT_NE(patient.until("0\r\n\r\n").find("[DONE]"), std::string::npos) << "it is computed afterwards, whole";
    await([&] { return rig.upstream.gone >= 1; });
    const auto counts = rig.settled();
    EXPECT_EQ(counts.finished, 2);
    const std::lock_guard lock(rig.sink.mutex);
    ASSERT_EQ(rig.sink.all.size(), 2U);
    EXPECT_EQ(rig.sink.all[0].request.predicted_output_tokens, 1) << "first";
  }
}

void four_types(GatewayOptions& options, GatewayPolicies& policies) {
  options.service.classes = Classifier({10}, {100});
  policies.dispatch.queueing.policy = std::make_shared<policy::LeastLaxityFirst>(policy::ServiceOptions{});
  policies.queueing = "llf";
  options.probe_health = true;
  options.health_period = Span::ms(20);
}

TEST(Places, AWorkerIsForTheTypeItSaysOnceItsHealthHasBeenSeen) {
  Rig rig({}, 64, "", four_types);
  const auto add = [&](const std::string& rest, const std::string& status, bool other = false) {
    const std::string url = other ? rig.upstream.other_url() : rig.upstream.url();
    return call(rig, "POST", "/workers", R"({"url":")" + url + R"(")" + rest + "}", status);
  };
  add(R"(,"type":"XL")", "400");
  add(R"(,"type":3)", "400");
  add(R"(,"type":"SS","pool":1)", "400");
  add(R"(,"connection_mode":"grpc")", "400");
  rig.upstream.answers_health = false;
  EXPECT_EQ(add(R"(,"type":"SS","weight":2,"priority":50,"cost":1.0,"labels":{})", "202")["id"], "0");
  EXPECT_EQ(add(R"(,"type":"LL")", "202", true)["id"], "1");
  const auto worker = [&](const char* id) { return call(rig, "GET", std::string("/workers/") + id, "", "200"); };
  EXPECT_EQ(worker("0")["job_status"]["job_type"], "AddWorker");
  EXPECT_EQ(worker("0")["job_status"]["status"], "processing");
  EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "503") << "not admitted yet";
  rig.upstream.answers_health = true;
  await([&] { return worker("1")["job_status"]["status"] == "succeeded" && worker("0")["status"] == "ready"; });
  EXPECT_EQ(worker("0")["type"], "SS");
  EXPECT_EQ(worker("0")["weight"], 2);
  const auto ask = [&](int prompt, int answer) {
    EXPECT_EQ(rig.ask(Rig::chat("", false,
                                "X-Wattle-Prompt-Tokens: " + std::to_string(prompt) +
                                    "\r\nX-Wattle-Predicted-Output-Tokens: " + std::to_string(answer) + "\r\n"))
                  .substr(9, 3),
              "200");
    rig.settled();
    const std::lock_guard lock(rig.sink.mutex);
    return rig.sink.all.back().decode_instance;
  };
  EXPECT_EQ(ask(5, 10), InstanceId(0));
  EXPECT_EQ(ask(50, 1000), InstanceId(1));
  EXPECT_EQ(ask(5, 1000), InstanceId(1)) << "nobody is for SL: the next larger type's";
  // A plan of a planner's comes before what workers say, and one without weights gives way to it again.
  call(rig, "PUT", "/plan", R"({"weights":[{"class":0,"pool":3,"weight":1}],"clocks":[]})", "200");
  EXPECT_EQ(ask(5, 10), InstanceId(1));
  call(rig, "PUT", "/plan", R"({"weights":[],"clocks":[]})", "200");
  EXPECT_EQ(ask(5, 10), InstanceId(0));
  // Of two planners the newer one is followed.
  const std::string to_long = R"({"clocks":[],"lease_ms":60000,"weights":[{"class":0,"pool":3,"weight":1}],"planner":)";
  const std::string to_any = R"({"clocks":[],"lease_ms":60000,"weights":[],"planner":)";
  call(rig, "PUT", "/plan", to_long + R"("a"})", "200");
  call(rig, "PUT", "/plan", to_any + R"("b"})", "200");
  call(rig, "PUT", "/plan", to_long + R"("a"})", "409");
  EXPECT_EQ(ask(5, 10), InstanceId(0));
  call(rig, "DELETE", "/workers/1", "", "202");
  EXPECT_EQ(worker("1")["job_status"]["job_type"], "RemoveWorker");
  EXPECT_EQ(worker("1")["job_status"]["status"], "succeeded");
  EXPECT_EQ(ask(50, 1000), InstanceId(0)) << "nobody else is left";
  EXPECT_EQ(rig.ask("GET /workers HTTP/1.1\r\nHost: h\r\n\r\n").substr(9, 3), "404") << "on the admin port alone";
}

TEST(Places, AWorkerStandsInAPoolThatTheScenarioStates) {
  Rig rig({}, 64, "", [](GatewayOptions& options, GatewayPolicies&) {
    options.service.pools = {{PoolId(0), "short", {}}, {PoolId(1), "long", {}}};
  });
  const auto add = [&](const std::string& pool, const std::string& status, const std::string& url) {
    return call(rig, "POST", "/workers", R"({"url":")" + url + R"(","pool":)" + pool + "}", status);
  };
  add("99", "400", rig.upstream.url());
  add(R"("none")", "400", rig.upstream.url());
  add("1", "202", rig.upstream.url());
  add(R"("short")", "202", rig.upstream.other_url());
  EXPECT_EQ(call(rig, "GET", "/workers/0", "", "200")["pool"], 1);
}

TEST(Places, WhatIsWrongWithAWorkerIsSaidByItsKey) {
  Rig rig({}, 64, "", [](GatewayOptions& options, GatewayPolicies&) {
    options.service.pools = {{PoolId(0), "short", {}}};
  });
  const std::string begin = R"({"url":")" + rig.upstream.url() + R"(",)";
  for (const auto& [rest, key] : {std::pair{R"("site":"Nowhere"})", "site"},
                                  {R"("pool":"none"})", "pool"},
                                  {R"("type":"XL"})", "type"},
                                  {R"("models":["m","other"]})", "models"},
                                  {R"("model_id":"other"})", "model_id"},
                                  {R"("worker_type":"prefill","decode":"7"})", "decode"}}) {
    EXPECT_EQ(call(rig, "POST", "/workers", begin + rest, "400")["error"]["param"], key);
  }
  EXPECT_EQ(call(rig, "POST", "/workers", R"({"url":"ftp://x"})", "400")["error"]["param"], "url");
}

TEST(Places, NoTwoWorkersStandAtOneAddress) {
  Rig rig({}, 64, "");
  const auto at = [](const std::string& url) { return R"({"url":")" + url + R"("})"; };
  call(rig, "POST", "/workers", at(rig.upstream.url()), "202");
  call(rig, "POST", "/workers", at(rig.upstream.other_url()), "202");
  EXPECT_EQ(call(rig, "PUT", "/workers/1", at(rig.upstream.url() + "/v1"), "409")["error"]["code"], "worker_exists");
  EXPECT_EQ(call(rig, "GET", "/workers/1", "", "200")["url"], rig.upstream.other_url());
  call(rig, "PUT", "/workers/1", at(rig.upstream.other_url()), "202");
  // One that was taken out has left its address to the next, and does not get it back.
  call(rig, "DELETE", "/workers/0", "", "202");
  call(rig, "PUT", "/workers/1", at(rig.upstream.url()), "202");
  call(rig, "PUT", "/workers/0", "", "409");
}

TEST(Places, WhatWouldNotStartIsRefusedWithoutStarting) {
  GatewayOptions options;
  options.models = {"m"};
  options.service.pools = {{PoolId(0), "short", {}}};
  const auto problem = [&](const std::function<void(GatewayOptions&)>& change) {
    GatewayOptions changed = options;
    changed.workers.resize(1);
    changed.workers[0].url = "http://127.0.0.1:1";
    change(changed);
    const auto ok = Gateway::check(changed, {});
    return ok ? std::string("accepted") : ok.error().message();
  };
  EXPECT_EQ(problem([](GatewayOptions&) {}), "accepted");
  EXPECT_EQ(problem([](GatewayOptions& o) { o.workers[0].site = "Nowhere"; }),
            "--worker http://127.0.0.1:1: there is no site \"Nowhere\"");
  EXPECT_EQ(problem([](GatewayOptions& o) { o.workers[0].pool = "xx"; }),
            "--worker http://127.0.0.1:1: there is no pool \"xx\"");
  EXPECT_EQ(problem([](GatewayOptions& o) { o.workers[0].models = {"other"}; }),
            "--worker http://127.0.0.1:1: there is no --model \"other\"");
  EXPECT_EQ(problem([](GatewayOptions& o) { o.agents.urls = {"http://http://127.0.0.1:9100"}; }),
            "--agent http://http://127.0.0.1:9100: \"http://http://127.0.0.1:9100\" is not a URL like "
            "http://127.0.0.1:8100");
}

TEST(Places, AnEngineThatNeverAnswersIsSaidToHaveFailed) {
  Rig rig({}, 64, "", [](GatewayOptions& options, GatewayPolicies& policies) {
    four_types(options, policies);
    options.probe_timeout = Span::ms(50);
  });
  call(rig, "POST", "/workers", R"({"url":"http://127.0.0.1:9"})", "202");
  await([&] { return call(rig, "GET", "/workers/0", "", "200")["job_status"]["status"] == "failed"; });
  EXPECT_EQ(call(rig, "GET", "/workers/0", "", "200")["is_healthy"], false);
}

TEST(Places, HeldRequestsMayBePutInOrderOfArrivalAndBack) {
  Rig rig({Role::Colocated}, 64, "", [](GatewayOptions&, GatewayPolicies& policies) {
    policies.dispatch.queueing.policy = std::make_shared<policy::LeastLaxityFirst>(policy::ServiceOptions{});
    policies.queueing = "llf";
  });
  EXPECT_EQ(call(rig, "GET", "/queue", "", "200")["mode"], "llf");
  call(rig, "PUT", "/queue", R"({"mode":"edf"})", "400");
  call(rig, "PUT", "/queue", "[]", "400");
  EXPECT_EQ(call(rig, "PUT", "/queue", R"({"mode":"direct"})", "200")["mode"], "direct");
  EXPECT_EQ(rig.ask(Rig::chat("", false)).substr(9, 3), "200");
  EXPECT_EQ(call(rig, "PUT", "/queue", R"({"mode":"llf"})", "200")["mode"], "llf");
}

}  // namespace
}  // namespace wattle::gateway
