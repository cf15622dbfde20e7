#include "carbon/ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace wattle::carbon {
namespace {

constexpr InstanceId kOne{0};
Instant at_s(double s) { return Instant(Span::from_seconds(s).ns()); }
double joules(const Booking& b) { return b.energy.joules().value(); }

TEST(Ledger, EnergyIsPowerTimesTime) {
  const auto intensity = IntensitySeries::constant(GramsPerKwh(360.0));
  Ledger ledger(1, intensity);
  ledger.power_changes(kOne, at_s(0), Milliwatts(100'000), 0, 0);
  ledger.power_changes(kOne, at_s(10), Milliwatts(400'000), 4, 0);
  ledger.close(at_s(15));
  const auto& totals = ledger.totals(kOne);
  EXPECT_DOUBLE_EQ(joules(totals.idle), 1000.0);    // 100 W x 10 s
  EXPECT_DOUBLE_EQ(joules(totals.decode), 2000.0);  // 400 W x 5 s
  EXPECT_DOUBLE_EQ(joules(totals.total), 3000.0);
  EXPECT_NEAR(totals.total.carbon.grams().value(), 3000.0 / 3.6e6 * 360.0, 1e-12);
}

TEST(Ledger, DecodeEnergyIsSharedByWhoIsThere) {
  const auto intensity = IntensitySeries::constant(GramsPerKwh(1.0));
  Ledger ledger(1, intensity);
  Account first, second;
  ledger.decode_joined(kOne, first, at_s(0));
  ledger.power_changes(kOne, at_s(0), Milliwatts(300'000), 1, 0);
  ledger.decode_joined(kOne, second, at_s(2));
  ledger.power_changes(kOne, at_s(2), Milliwatts(300'000), 2, 0);
  ledger.decode_left(kOne, first, at_s(4));
  ledger.power_changes(kOne, at_s(4), Milliwatts(300'000), 1, 0);
  ledger.decode_left(kOne, second, at_s(5));
  EXPECT_DOUBLE_EQ(joules(first.decode), 600.0 + 300.0);   // alone 2 s, then half of 2 s
  EXPECT_DOUBLE_EQ(joules(second.decode), 300.0 + 300.0);  // half of 2 s, then alone 1 s
}

TEST(Ledger, MixedStepIsSplitByTokensAndPrefillByPrompts) {
  const auto intensity = IntensitySeries::constant(GramsPerKwh(1.0));
  Ledger ledger(1, intensity);
  Account decoding, small, large;
  ledger.decode_joined(kOne, decoding, at_s(0));
  ledger.power_changes(kOne, at_s(0), Milliwatts(1'000'000), 1, 99);
  const std::vector<Ledger::Share> shares{{&small, 33}, {&large, 66}};
  ledger.settle_prefill(kOne, at_s(1), shares);
  ledger.decode_left(kOne, decoding, at_s(1));
  EXPECT_DOUBLE_EQ(joules(decoding.decode), 10.0);
  EXPECT_DOUBLE_EQ(joules(small.prefill), 330.0);
  EXPECT_DOUBLE_EQ(joules(large.prefill), 660.0);
}

TEST(Ledger, CarbonFollowsIntensity) {
  const auto series = IntensitySeries::from_points({{at_s(0), GramsPerKwh(100.0)}, {at_s(10), GramsPerKwh(-50.0)}});
  ASSERT_TRUE(series.has_value());
  Ledger ledger(1, *series);
  ledger.power_changes(kOne, at_s(0), Milliwatts(3'600'000), 0, 0);  // 1 Wh a second
  ledger.close(at_s(30));
  EXPECT_NEAR(ledger.fleet().total.carbon.grams().value(), 10 * 0.1 - 20 * 0.05, 1e-9);
}

/// INV-5 and its companion: no result depends on how often the ledger is called.
RC_GTEST_PROP(Ledger, PartsSumToTheWholeHoweverOftenItIsCalled, ()) {
  const auto series = IntensitySeries::from_points(
      {{at_s(0), GramsPerKwh(312.7)}, {at_s(3), GramsPerKwh(88.123456)}, {at_s(9), GramsPerKwh(-12.5)}});
  RC_ASSERT(series.has_value());
  Ledger sparse(1, *series);
  Ledger chatty(1, *series);
  Account a[2], b[2];
  bool in[2] = {false, false};
  std::int64_t now = 0;
  Milliwatts power;
  std::int64_t prompt = 0;
  const auto both = [&](auto&& f) {
    f(sparse, a);
    f(chatty, b);
  };
  const auto members = [&] { return static_cast<std::int32_t>(in[0]) + static_cast<std::int32_t>(in[1]); };
  const int steps = *rc::gen::inRange(1, 40);
  for (int i = 0; i < steps; ++i) {
    const auto until = now + *rc::gen::inRange<std::int64_t>(1, 900'000'000);
    // The chatty driver repeats the same state in between, as a simulator that runs every step does.
    for (std::int64_t t = now; t < until; t += (until - now) / 3 + 1) {
      chatty.power_changes(kOne, Instant(t), power, members(), prompt);
    }
    now = until;
    const auto who = *rc::gen::inRange<std::size_t>(0, 2);
    both([&](Ledger& ledger, Account* accounts) {
      if (prompt > 0) {
        const std::vector<Ledger::Share> shares{{&accounts[0], prompt - prompt / 3}, {&accounts[1], prompt / 3}};
        ledger.settle_prefill(kOne, Instant(now), shares);
      }
      if (in[who]) {
        ledger.decode_left(kOne, accounts[who], Instant(now));
      } else {
        ledger.decode_joined(kOne, accounts[who], Instant(now));
      }
    });
    in[who] = !in[who];
    power = Milliwatts(*rc::gen::inRange<std::int64_t>(0, 5'600'000));
    prompt = *rc::gen::inRange<std::int64_t>(0, 5000);
    both([&](Ledger& ledger, Account*) { ledger.power_changes(kOne, Instant(now), power, members(), prompt); });
  }
  both([&](Ledger& ledger, Account* accounts) {
    ledger.settle_prefill(kOne, Instant(now), std::vector<Ledger::Share>{{&accounts[0], 1}});
    for (std::size_t i = 0; i < 2; ++i) {
      if (in[i]) ledger.decode_left(kOne, accounts[i], Instant(now));
    }
  });
  const auto totals = sparse.fleet();
  RC_ASSERT(totals.total == totals.prefill + totals.decode + totals.idle + totals.residue);
  RC_ASSERT(totals.total == chatty.fleet().total);
  RC_ASSERT(totals.residue == chatty.fleet().residue);
  RC_ASSERT(a[0].total() == b[0].total() && a[1].total() == b[1].total());
  RC_ASSERT(totals.prefill + totals.decode == a[0].total() + a[1].total());
}

}  // namespace
}  // namespace wattle::carbon
