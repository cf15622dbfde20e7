#include "policy/retail/retail.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

namespace wattle::policy {
namespace {

/// 20 s at 210 MHz falling to 8 s at 1410 MHz, plus a second for every ten output tokens.
RequestLatency model() { return {{22.1, -0.01, 0.0, 0.0, 0.0, 0.1}}; }

std::vector<MegaHertz> steps() {
  std::vector<MegaHertz> clocks;
  for (std::int32_t mhz = 210; mhz <= 1410; mhz += 15) clocks.emplace_back(mhz);
  return clocks;
}

struct RetailTest : testing::Test {
  RetailTest() { make({}); }
  void make(const RetailOptions& options) {
    spec.clocks = steps();
    spec.slo.e2e = Span::s(30);
    spec.beliefs.request = &latency;
    view.id = InstanceId{0};
    view.spec = &spec;
    view.telemetry = Telemetry::Fresh;
    view.step.shape.decode_requests = 1;
    policy = std::make_unique<Retail>(options);
    policy->observe(event::Joined{view}, now);
  }
  void start(std::int64_t id, std::int32_t tokens, Span waited = Span(), std::int32_t cap = 1'000) {
    Request r;
    r.id = RequestId{id};
    r.predicted_output_tokens = tokens;
    r.max_tokens = cap;
    r.arrival = now - waited;
    policy->observe(event::Started{r, view}, now);
  }
  MegaHertz choose() { return policy->choose(view, now).clock; }

  Instant now = Instant() + Span::s(1'000);
  RequestLatency latency = model();
  InstanceSpec spec;
  InstanceView view;
  std::unique_ptr<Retail> policy;
};

TEST_F(RetailTest, TheNeediestRequestInTheQueueDecides) {
  start(1, 50);
  EXPECT_EQ(choose(), MegaHertz{210}) << "25 s at the lowest clock";
  start(2, 150);
  EXPECT_EQ(choose(), MegaHertz{720}) << "15 s of its own leave 15 s: 22.1 - 0.01 f <= 15 from 710 MHz on";
  start(3, 50, Span::s(20));
  EXPECT_EQ(choose(), MegaHertz{1410}) << "20 s waited and 5 s of its own: none suits";
  start(4, 1);
  EXPECT_EQ(choose(), MegaHertz{1410});
  for (const std::int64_t id : {2, 3}) {
    Outcome gone;
    gone.request.id = RequestId{id};
    policy->observe(event::Left{gone}, now);
  }
  EXPECT_EQ(choose(), MegaHertz{1410}) << "chosen when a request arrives, not when one leaves";
  start(5, 1);
  EXPECT_EQ(choose(), MegaHertz{210});
}

TEST_F(RetailTest, WithoutPredictionTheCapIsAssumed) {
  start(1, 0, Span(), 150);
  EXPECT_EQ(choose(), MegaHertz{720});
}

TEST_F(RetailTest, TheMarginShortensWhatEveryRequestMayTake) {
  make({.margin = 0.2});
  start(1, 50);
  EXPECT_EQ(choose(), MegaHertz{315}) << "24 s: 22.1 - 0.01 f + 5 <= 24 from 310 MHz on, where 30 s allow 210";
}

TEST_F(RetailTest, ANonsensicalModelMeansTheHighestClock) {
  latency.weights[0] = std::numeric_limits<double>::quiet_NaN();
  start(1, 1);
  EXPECT_EQ(choose(), MegaHertz{1410});
}

TEST_F(RetailTest, LostTelemetryMeansTheHighestClock) {
  start(1, 1);
  view.telemetry = Telemetry::Lost;
  EXPECT_EQ(choose(), MegaHertz{1410});
  view.telemetry = Telemetry::Fresh;
  EXPECT_EQ(choose(), MegaHertz{210});
}

}  // namespace
}  // namespace wattle::policy
