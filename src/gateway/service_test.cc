// Whose a request is, what it is promised, and what becomes of it where that cannot be kept.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "gateway/rig_test.h"
#include "gateway/token_tally.h"
#include "net/await_test.h"

namespace wattle::gateway {
namespace {

/// 200 ms a prompt token.
class Slow final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz) const override {
    return Span::ms(200) * shape.prefill_tokens;
  }
};

class TheFirst final : public policy::RoutingPolicy {
 public:
  RouteDecision route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                      RandomStream&) override {
    return {candidates.front()->id, "the first"};
  }
};

void with_service(GatewayOptions& options, GatewayPolicies&) {
  options.slo.ttft = Span::s(20);
  options.service.classes = Classifier({10}, {100});
  options.service.objectives = Objectives(options.slo, {}, {}, {{"gold", {}, 1.0}, {"bronze", {}, 3.0}});
  options.service.tenants = {{"shop", TierId(1), SiteId(), 5}};
}

TEST(Service, ARequestHasItsTenantsTierAndPriorityUnlessItSaysOtherwise) {
  Rig rig({Role::Colocated}, 64, "", with_service);
  const auto ask = [&](const std::string& headers) {
    const std::string status = rig.ask(Rig::chat("", false, headers)).substr(9, 3);
    rig.settled();
    return status;
  };
  EXPECT_EQ(ask("X-Wattle-Prompt-Tokens: 4\r\nX-Wattle-Tenant: shop\r\n"), "200");
  EXPECT_EQ(ask("X-Wattle-Prompt-Tokens: 40\r\nX-Wattle-Tenant: shop\r\nX-Wattle-Tier: gold\r\n"
                "X-Wattle-Priority: -2\r\n"),
            "200");
  EXPECT_EQ(ask("X-Wattle-Tier: silver\r\n"), "400");
  EXPECT_EQ(ask("X-Wattle-Origin: moon\r\n"), "400");
  EXPECT_EQ(ask("X-Wattle-Priority: high\r\n"), "400");
  EXPECT_EQ(ask("X-Wattle-Prompt-Tokens: 2147483647\r\n"), "400") << "one more token would not be a number";
  ASSERT_EQ(rig.sink.all.size(), 2U);
  EXPECT_EQ(rig.sink.all[0].request.tier, TierId(1));
  EXPECT_EQ(rig.sink.all[0].request.priority, 5);
  EXPECT_EQ(rig.sink.all[0].request.request_class, Classifier({10}, {100}).find("SS"));
  EXPECT_EQ(rig.sink.all[1].request.tier, TierId(0));
  EXPECT_EQ(rig.sink.all[1].request.priority, -2);
  EXPECT_EQ(rig.sink.all[1].request.request_class, Classifier({10}, {100}).find("LS"));
}

TEST(Service, GapsAreHeldToTheObjectiveOfTheirRequest) {
  Rig rig({Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies&) {
    options.slo.itl = Span::s(20);
    std::vector<Slo> by_size(2);
    by_size[0].itl = Span();
    options.service.objectives = Objectives(options.slo, Classifier({}, {6}), by_size, {{"own", {}, 1.0}});
  });
  rig.ask(Rig::chat("", true), true);
  rig.settled();
  EXPECT_EQ(rig.sink.all.at(0).output_tokens, 7);
  EXPECT_EQ(rig.sink.all.at(0).gaps_within_itl, 6) << "it turned out to be long, whose limit is the fleet's";

  const std::vector<Span> limits{Span::ms(10), Span::ms(20), Span::max()};
  TokenTally tally(limits);
  Instant at;
  for (const int gap_ms : {0, 10, 11, 20, 21, 5}) tally.token(at = at + Span::ms(gap_ms));
  EXPECT_EQ(tally.served(Span::ms(10)).gaps_within_itl, 2);
  EXPECT_EQ(tally.served(Span::ms(20)).gaps_within_itl, 4);
  EXPECT_EQ(tally.served(Span::max()).gaps_within_itl, 5);
  TokenTally whole(limits);
  whole.whole(5, Instant(), Instant() + Span::ms(75));
  EXPECT_EQ(whole.served(Span::ms(10)).gaps_within_itl, 0);
  EXPECT_EQ(whole.served(Span::ms(20)).gaps_within_itl, 4);
}

TEST(Service, ARequestThatWaitedForTooLongIsGivenBackToTryAgain) {
  Rig rig({Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies&) {
    options.slo.ttft = Span::ms(50);
    options.emergency = {Mode::Enforce, Span::ms(20), Span::s(1), Span::ms(100)};
  });
  const std::string answer = rig.ask(Rig::chat("silent", true));
  EXPECT_EQ(answer.substr(9, 3), "503") << answer;
  EXPECT_NE(answer.find("Retry-After: 1"), std::string::npos) << answer;
  EXPECT_NE(answer.find("overloaded"), std::string::npos) << answer;
  EXPECT_EQ(rig.settled().rejected, 1);
  await([&] { return rig.upstream.gone >= 1; });  // the engine is rid of it
  // Others go on, unless a busy machine lets them wait for as long.
  await([&] { return rig.ask(Rig::chat("", true), true).find("[DONE]") != std::string::npos; });
}

TEST(Service, ABacklogIsSentToAnotherEngineAndEachRequestIsAnsweredOnce) {
  static const Slow slow;
  Rig rig({Role::Colocated, Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies& policies) {
    options.slo.ttft = Span::s(20);
    options.emergency = {Mode::Enforce, Span::ms(20), Span::s(1), Span::max()};
    policies.dispatch.route_prefill = {std::make_shared<TheFirst>(), Mode::Enforce};
    policies.describe = [](WorkerOptions&) -> Result<GatewayPolicies::Instance> {
      InstanceSpec spec;
      spec.beliefs.latency = &slow;
      return GatewayPolicies::Instance{std::make_shared<const InstanceSpec>(spec), {}};
    };
  });
  std::vector<std::unique_ptr<net::RawClient>> clients;
  for (int i = 0; i < 4; ++i) {  // 6 s of prompt each: the fourth would be late
    clients.push_back(std::make_unique<net::RawClient>(rig.gateway->port()));
    clients.back()->send(Rig::chat("silent-at-first", true, "X-Wattle-Prompt-Tokens: 30\r\n"));
    await([&] { return rig.gateway->counts().arrived >= i + 1; });
  }
  const std::string answer = clients.back()->until("0\r\n\r\n");
  EXPECT_EQ(answer.substr(9, 3), "200") << answer;
  EXPECT_NE(answer.find("[DONE]"), std::string::npos) << answer;
  clients.clear();
  const auto counts = rig.settled();
  EXPECT_GE(counts.finished, 1);
  EXPECT_EQ(counts.finished + counts.cancelled, 4);
  const std::lock_guard lock(rig.sink.mutex);
  EXPECT_EQ(rig.sink.all.size(), 4U);
  for (const Outcome& o : rig.sink.all) {
    if (o.fate == Fate::Finished) {
      EXPECT_EQ(o.decode_instance, InstanceId(1));
    }
  }
}

}  // namespace
}  // namespace wattle::gateway
