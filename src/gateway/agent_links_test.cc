#include "gateway/agent_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "net/await_test.h"
#include "net/clock.h"
#include "net/server.h"

namespace wattle::gateway {
namespace {

/// An agent over one engine, "e", that writes down what it hears.
struct Agent {
  net::LoopPool pool{1};
  std::atomic<int> heard{0};
  std::atomic<int> requests{-1};             ///< in the engine, as it last heard
  std::atomic<std::int64_t> youngest_us{0};  ///< the least age it ever heard of
  std::atomic<int> clock{0};
  std::atomic<int> waits_us{0};  ///< of hand-overs, all
  std::atomic<int> finished{0}, late{0};
  std::atomic<int> tbt_ms{0};  ///< of the objectives; -1: it was placed without any
  std::atomic<std::int64_t> energy_uj{0};
  std::atomic<bool> named{false};            ///< what it heard names its gateway
  std::atomic<bool> asked_of_itself{false};  ///< for what has come since what it has said itself
  std::unique_ptr<net::HttpServer> server;
  Agent() {
    server = std::move(*net::HttpServer::listen(pool, {}, [this](const std::shared_ptr<net::Exchange>& e) {
      if (e->path() == "/clocks") {
        ++heard;
        const auto body = nlohmann::json::parse(e->body());
        named = body.value("gateway", "") == "g";
        for (const auto& one : body.value("handed_over", nlohmann::json::array()))
          waits_us += one["wait_us"].get<int>();
        for (const auto& one : body.value("finished", nlohmann::json::array())) {
          late += one["late"].get<int>();
          finished += one["requests"].get<int>();
        }
        for (const auto& work : body["work"]) {
          for (const auto* age : {"oldest_us", "computing_us"})
            youngest_us = std::min(youngest_us.load(), work[age].get<std::int64_t>());
          requests = work["requests"].get<int>();
        }
        for (const auto& wanted : body["clocks"]) clock = wanted["clock_mhz"].get<int>();
      }
      if (e->path() == "/plan") {
        const auto body = nlohmann::json::parse(e->body());
        named = named && body.value("gateway", "") == "g";
        for (const auto& placed : body["engines"]) {
          tbt_ms = placed.contains("objectives") ? placed["objectives"]["tbt_ms"].get<int>() : -1;
        }
      }
      if (e->target() == "/engines?after=4&of=77") asked_of_itself = true;
      e->respond(
          200, "application/json",
          nlohmann::json{
              {"engines", {{{"engine", "e"}, {"energy_uj", energy_uj.load()}}}}, {"started_unix_us", 77}, {"next", 4}}
              .dump());
    }));
  }
  ~Agent() {
    server.reset();
    pool.stop();
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server->port()); }
};

control::InstanceWork of(int requests) {
  control::InstanceWork work;
  work.requests = work.prompts = requests;
  work.oldest = net::steady_now();
  return work;
}

struct Linked {
  Agent agent;
  std::unique_ptr<AgentLinks> links;
  explicit Linked(Span poll_period = Span::ms(50)) {
    AgentLinksOptions options;
    options.urls = {agent.url()};
    options.poll_period = poll_period;
    options.lease = poll_period * 40;
    options.name = "g";
    links = std::move(*AgentLinks::make(options));
    links->know("e", InstanceId(0));
    links->start({[](const EngineReading&) {}, [](const journal::DecisionRecord&) {}});
    // Once it has said which engines it has, it hears of them.
    links->work(InstanceId(0), of(1));
    await([&] { return agent.requests == 1; });
  }
};

TEST(AgentLinks, HoweverFastWorkComesAndGoesTheAgentHearsSoOftenAndNoMore) {
  Linked linked;
  const Instant began = net::steady_now();
  const int before = linked.agent.heard;
  for (int i = 0; i < 200'000; ++i) linked.links->work(InstanceId(0), of(i % 2));
  linked.links->work(InstanceId(0), of(7));
  await([&] { return linked.agent.requests == 7; });
  const double passed_ms = (net::steady_now() - began).millis();
  // Every 2 ms, with polls and with renewals.
  EXPECT_LE(linked.agent.heard - before, passed_ms / 2 + passed_ms / 50 + passed_ms / 500 + 4);
}

TEST(AgentLinks, WhatBeginsIsSaidWithoutAPollAndTheRestWithOne) {
  Linked linked(Span::s(3600));  // one poll, and no renewal in our time
  linked.links->work(InstanceId(0), of(0));
  await([&] { return linked.agent.requests == 0; });
  linked.links->work(InstanceId(0), of(3));
  await([&] { return linked.agent.requests == 3; });
  linked.links->command(InstanceId(0), MegaHertz(1005), Instant());
  await([&] { return linked.agent.clock == 1005; });
}

TEST(AgentLinks, NoAgeIsBelowZero) {
  Linked linked;
  control::InstanceWork work = of(3);
  work.oldest = Instant::never();  // as of prompts that only the engine's gauges know
  linked.links->work(InstanceId(0), work);
  await([&] { return linked.agent.requests == 3; });
  work = of(2);
  work.oldest = work.computing_since = net::steady_now() + Span::s(60);
  work.computing = 1;
  linked.links->work(InstanceId(0), work);
  await([&] { return linked.agent.requests == 2; });
  EXPECT_EQ(linked.agent.youngest_us, 0);
}

TEST(AgentLinks, AnAgentIsAskedForWhatIsNewSinceItSaidSoItself) {
  Linked linked;
  await([&] { return linked.agent.asked_of_itself.load(); });
}

TEST(AgentLinks, ObjectivesOfAPoolAreSaidAndTakenBack) {
  Linked linked(Span::s(3600));
  Slo slo;
  slo.tbt = Span::ms(200);
  linked.links->place(InstanceId(0), {PoolId(1), {}, slo});
  await([&] { return linked.agent.tbt_ms == 200; });
  linked.links->place(InstanceId(0), {PoolId(1)});
  await([&] { return linked.agent.tbt_ms == -1; });
  EXPECT_TRUE(linked.agent.named) << "an agent obeys one gateway";
}

TEST(AgentLinks, WorkOfALoopIsSaidWhenItsTurnIsOver) {
  Linked linked(Span::s(3600));
  net::Loop caller;
  for (const int requests : {0, 3, 0, 5}) {
    caller.post([&linked, requests] { linked.links->work(InstanceId(0), of(requests)); });
    await([&] { return linked.agent.requests == requests; });
  }
  std::atomic<bool> turn_goes_on{true};
  caller.post([&] {
    linked.links->work(InstanceId(0), of(0));
    while (turn_goes_on) std::this_thread::yield();
  });
  linked.links->command(InstanceId(0), MegaHertz(1005), Instant());  // waits for nobody's turn
  await([&] { return linked.agent.clock == 1005; });
  turn_goes_on = false;
  await([&] { return linked.agent.requests == 0; });
}

/// Each counts from its own start: taken in turns, every step from the lower to the higher one would be energy.
TEST(AgentLinks, AnEngineIsTheFirstAgentsThatSaysSo) {
  Agent first, second;
  first.energy_uj = 5'000'000;
  second.energy_uj = 900'000'000;
  AgentLinksOptions options;
  for (const Agent* agent : {&first, &second}) {
    options.urls.push_back(agent->url());
  }
  options.poll_period = Span::ms(5);
  auto links = std::move(*AgentLinks::make(options));
  links->know("e", InstanceId(0));
  std::mutex mutex;
  std::set<std::int64_t> read;
  std::atomic<int> readings{0};
  links->start({[&](const EngineReading& reading) {
                  const std::lock_guard lock(mutex);
                  read.insert(static_cast<std::int64_t>(reading.energy.value() / 1'000'000));
                  ++readings;
                },
                [](const journal::DecisionRecord&) {}});
  await([&] { return readings >= 20; });
  links->command(InstanceId(0), MegaHertz(1005), Instant());
  await([&] { return first.clock == 1005 || second.clock == 1005; });
  links->stop();
  const std::lock_guard lock(mutex);
  ASSERT_EQ(read.size(), 1U) << "of one of them, whichever it is";
  EXPECT_EQ(*read.begin() == 5'000'000, first.clock == 1005) << "and its clock is the one that is set";
}

/// What the agent is read at.
struct Read {
  std::unique_ptr<AgentLinks> links;
  std::atomic<std::int64_t> energy_uj{-1};
  explicit Read(AgentLinksOptions options) {
    options.poll_period = Span::ms(5);
    options.lease = Span::ms(200);
    links = std::move(*AgentLinks::make(options));
    links->know("e", InstanceId(0));
    links->start({[this](const EngineReading& reading) {
                    energy_uj = static_cast<std::int64_t>(reading.energy.value() / 1'000'000);
                  },
                  [](const journal::DecisionRecord&) {}});
  }
  ~Read() { links->stop(); }
};

TEST(AgentLinks, AnotherAgentMayHaveTheEngineOfOneThatIsGone) {
  Agent first, second;
  first.energy_uj = 5;
  AgentLinksOptions options;
  options.urls = {first.url(), second.url()};
  Read read(options);
  await([&] { return read.energy_uj >= 0; });
  (read.energy_uj == 5 ? first : second).server.reset();
  const std::int64_t other = read.energy_uj == 5 ? 0 : 5;
  await([&] { return read.energy_uj == other; });
}

TEST(AgentLinks, AnAgentIsFoundAtTheAddressThatItsNameHasNow) {
  Agent first, second;
  first.energy_uj = 5;
  second.energy_uj = 9;
  std::mutex mutex;
  std::string leads_to;  // nowhere as yet
  AgentLinksOptions options;
  options.urls = {"http://agent.test:9100"};
  options.look_up = [&](std::string_view url, std::string_view where) -> Result<net::Endpoint> {
    const std::lock_guard lock(mutex);
    if (leads_to.empty()) return external_failure(std::string(where), "cannot resolve " + std::string(url));
    return net::resolve_endpoint(leads_to, where);
  };
  const auto lead_to = [&](const Agent& agent) {
    const std::lock_guard lock(mutex);
    leads_to = agent.url();
  };
  Read read(options);
  lead_to(first);
  await([&] { return read.energy_uj == 5; });
  lead_to(second);
  first.server.reset();
  await([&] { return read.energy_uj == 9; });
}

TEST(AgentLinks, HandOversAreSaidOnceWithAPoll) {
  Linked linked;
  linked.links->handed_over(InstanceId(0), Span::ms(5), Span::ms(7));
  linked.links->handed_over(InstanceId(0), Span::ms(5), Span::ms(9));
  linked.links->handed_over(InstanceId(1), Span::ms(5), Span::ms(100));  // another agent's
  await([&] { return linked.agent.waits_us != 0; });
  const int heard = linked.agent.heard;
  linked.links->work(InstanceId(0), of(7));
  await([&] { return linked.agent.requests == 7 && linked.agent.heard != heard; });
  EXPECT_EQ(linked.agent.waits_us, 16'000);
}

TEST(AgentLinks, RequestsThatEndAreSaidOnceWithAPoll) {
  Linked linked;
  for (int i = 0; i < 5; ++i) linked.links->finished(InstanceId(0), ClassId(i % 2), i < 2);
  linked.links->finished(InstanceId(1), ClassId(0), true);  // another agent's
  await([&] { return linked.agent.finished == 5; });
  EXPECT_EQ(linked.agent.late, 2);
  linked.links->finished(InstanceId(0), ClassId(0), false);
  await([&] { return linked.agent.finished == 6; });
  EXPECT_EQ(linked.agent.late, 2);
}

}  // namespace
}  // namespace wattle::gateway
