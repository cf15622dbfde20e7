#include "carbon/ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace wattle::carbon {
namespace {

constexpr InstanceId kOne{0};
Instant at_s(double s) { return Instant(Span::from_seconds(s).ns()); }
double joules(const Booking& b) { return b.energy.joules().value(); }

/// A site of this intensity alone.
std::vector<SiteRates> emitting(IntensitySeries intensity) {
  SiteRates rates;
  rates.intensity = std::move(intensity);
  return {rates};
}
Ledger ledger_of(double grams_per_kwh) {
  Ledger ledger(emitting(IntensitySeries::constant(GramsPerKwh(grams_per_kwh))));
  ledger.add_instance(Instant(), 1);
  return ledger;
}

TEST(Ledger, EnergyIsPowerTimesTime) {
  auto ledger = ledger_of(360.0);
  ledger.power_changes(kOne, at_s(0), Milliwatts(100'000), 0, 0);
  ledger.power_changes(kOne, at_s(10), Milliwatts(400'000), 4, 0);
  ledger.close(at_s(15));
  const auto& totals = ledger.totals(kOne);
  EXPECT_DOUBLE_EQ(joules(totals.idle), 1000.0);    // 100 W x 10 s
  EXPECT_DOUBLE_EQ(joules(totals.decode), 2000.0);  // 400 W x 5 s
  EXPECT_DOUBLE_EQ(joules(totals.total), 3000.0);
  EXPECT_NEAR(totals.total.carbon.grams().value(), 3000.0 / 3.6e6 * 360.0, 1e-12);
}

TEST(Ledger, SpareGpusAreIdleEnergyOfTheirSiteAndOfNoInstance) {
  auto ledger = ledger_of(360.0);
  ledger.power_changes(kOne, at_s(0), Milliwatts(100'000), 0, 0);
  ledger.spare_gpus(SiteId(0), 3, Milliwatts(200'000), at_s(10));
  ledger.spare_gpus(SiteId(0), 1, Milliwatts(60'000), at_s(20));
  ledger.close(at_s(30));
  EXPECT_DOUBLE_EQ(joules(ledger.spare().total), 2000.0 + 600.0);
  EXPECT_EQ(ledger.spare().total.gpu_time, Span::s(40));
  EXPECT_DOUBLE_EQ(joules(ledger.totals(kOne).total), 3000.0);
  const auto fleet = ledger.fleet();
  EXPECT_DOUBLE_EQ(joules(fleet.total), 5600.0);
  EXPECT_EQ(fleet.total, fleet.idle);
  EXPECT_NEAR(fleet.total.carbon.grams().value(), 5600.0 / 3.6e6 * 360.0, 1e-12);
}

TEST(Ledger, DecodeEnergyIsSharedByWhoIsThere) {
  auto ledger = ledger_of(1.0);
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
  auto ledger = ledger_of(1.0);
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
  Ledger ledger(emitting(*series));
  ledger.add_instance(Instant(), 1);
  ledger.power_changes(kOne, at_s(0), Milliwatts(3'600'000), 0, 0);  // 1 Wh a second
  ledger.close(at_s(30));
  EXPECT_NEAR(ledger.fleet().total.carbon.grams().value(), 10 * 0.1 - 20 * 0.05, 1e-9);
}

TEST(Ledger, EnergyOfUnknownCarbonIsCountedApartAndNeverBookedAsZero) {
  const GramsPerKwh before(100.0), after(300.0);
  auto gap = IntensitySeries::from_points({{at_s(0), before}, {at_s(10), before, false}, {at_s(20), after}}, at_s(30));
  ASSERT_TRUE(gap);
  Ledger ledger(emitting(std::move(*gap)));
  ledger.add_instance(Instant(), 1);
  ledger.power_changes(kOne, at_s(0), Milliwatts(100'000), 0, 0);
  ledger.close(at_s(40));
  const auto totals = ledger.totals(kOne);
  EXPECT_DOUBLE_EQ(totals.unknown_carbon.joules().value(), 1000.0 + 1000.0) << "the gap, and after the end";
  EXPECT_NEAR(totals.total.carbon.grams().value(), (2000.0 * 100.0 + 2000.0 * 300.0) / 3.6e6, 1e-12);
  EXPECT_EQ(ledger.fleet().unknown_carbon, totals.unknown_carbon);
}

TEST(Ledger, EnergyOfUnknownPriceIsCountedApartAndCostsWhatTheLastOneSaid) {
  SiteRates rates;
  rates.electricity = *PriceSeries::from_points({{at_s(0), UsdPerMwh(50.0)}, {at_s(10), UsdPerMwh(1000.0)}}, at_s(20));
  Ledger ledger({rates});
  ledger.add_instance(Instant(), 1);
  ledger.power_changes(kOne, at_s(0), Milliwatts(3'600'000), 0, 0);  // 1 Wh a second
  ledger.close(at_s(15));
  EXPECT_EQ(ledger.fleet().unknown_price, Picojoules());
  ledger.close(at_s(50));
  const auto totals = ledger.fleet();
  EXPECT_DOUBLE_EQ(totals.unknown_price.joules().value(), 30.0 * 3600.0) << "from where the prices end";
  EXPECT_EQ(totals.unknown_carbon, Picojoules()) << "its intensity is known";
  EXPECT_NEAR(totals.total.cost.usd().value(), 10e-6 * 50.0 + 40e-6 * 1000.0, 1e-12);
}

TEST(Ledger, AnIntensityThatBecomesKnownHoldsFromTheNewestBookingOn) {
  Ledger ledger(emitting(IntensitySeries::unknown(GramsPerKwh(400.0))));
  ledger.add_instance(Instant(), 1);
  ledger.power_changes(kOne, at_s(0), Milliwatts(100'000), 0, 0);
  ledger.close(at_s(10));
  auto known = IntensitySeries::from_points({{at_s(5), GramsPerKwh(50.0)}}, at_s(30));
  ASSERT_TRUE(known);
  ledger.set_intensity(SiteId(0), std::move(*known));
  ledger.close(at_s(20));
  EXPECT_DOUBLE_EQ(ledger.totals(kOne).unknown_carbon.joules().value(), 1000.0);
  EXPECT_NEAR(ledger.totals(kOne).total.carbon.grams().value(), (1000.0 * 400.0 + 1000.0 * 50.0) / 3.6e6, 1e-12);
}

TEST(Ledger, WhatGoesByTheTimeOfDayFollowsItWhereItIsSet) {
  const auto hourly = *IntensitySeries::from_points(
      {{at_s(0), GramsPerKwh(100.0)}, {at_s(3600), GramsPerKwh(500.0)}, {at_s(7200), GramsPerKwh(900.0)}}, at_s(10800));
  std::vector<SiteRates> sites(2);
  for (SiteRates& site : sites) site.intensity = hourly;
  sites[1].by_time_of_day = true;
  Ledger ledger(sites);
  const InstanceId replayed(0), present(1);
  for (const int site : {0, 1}) {
    ledger.add_instance(Instant(), 1, SiteId(site));
    ledger.power_changes(InstanceId(site), at_s(0), Milliwatts(3'600'000), 0, 0);  // 1 Wh a second
  }
  const auto grams_until = [&](InstanceId id, int s) {
    const double before = ledger.totals(id).total.carbon.grams().value();
    ledger.close(at_s(s));
    return ledger.totals(id).total.carbon.grams().value() - before;
  };
  EXPECT_NEAR(grams_until(present, 10), 1.0, 1e-9);
  ledger.time_of_day_is(Span::s(3585));  // the next hour begins in five seconds
  EXPECT_NEAR(grams_until(present, 20), 5 * 0.1 + 5 * 0.5, 1e-9);
  ledger.time_of_day_is(-Span::s(60));
  EXPECT_NEAR(grams_until(present, 30), 1.0, 1e-9);
  EXPECT_EQ(ledger.totals(present).unknown_carbon.joules().value(), 36'000.0) << "no data for the time before them";
  EXPECT_NEAR(ledger.totals(replayed).total.carbon.grams().value(), 3.0, 1e-9) << "it states its own start";
}

TEST(Ledger, CostIsElectricityAndGpuTime) {
  SiteRates rates;
  rates.electricity = *PriceSeries::from_points({{at_s(0), UsdPerMwh(100.0)}, {at_s(10), UsdPerMwh(-50.0)}});
  rates.gpu_price = UsdPerHour(3.6);
  Ledger ledger({rates});
  ledger.add_instance(at_s(0), 2);
  ledger.power_changes(kOne, at_s(0), Milliwatts(3'600'000'000), 0, 0);  // 1 kWh a second
  ledger.close(at_s(30));
  const auto& totals = ledger.totals(kOne);
  EXPECT_EQ(totals.total.gpu_time, Span::s(60));
  EXPECT_NEAR(rates.gpu_cost(totals.total.gpu_time).usd().value(), 60 * 0.001, 1e-12);
  EXPECT_NEAR(totals.total.cost.usd().value(), 60 * 0.001 + 10 * 0.1 - 20 * 0.05, 1e-12);
  ledger.power_changes(kOne, at_s(30), Milliwatts(0), 0, 0);
  ledger.instance_gone(kOne, at_s(40));
  ledger.close(at_s(100));
  EXPECT_EQ(ledger.totals(kOne).total.gpu_time, Span::s(80)) << "its GPUs are somebody else's from 40 s on";
}

TEST(Ledger, EachSiteHasItsOwnRates) {
  SiteRates clean, dirty;
  clean.name = "clean";
  clean.intensity = IntensitySeries::constant(GramsPerKwh(36.0));
  clean.gpu_price = UsdPerHour(1.0);
  dirty.name = "dirty";
  dirty.intensity = IntensitySeries::constant(GramsPerKwh(360.0));
  dirty.gpu_price = UsdPerHour(2.0);
  Ledger ledger({clean, dirty});
  for (const int site : {0, 1, 1}) ledger.add_instance(Instant(), 1, SiteId(site));
  for (const int i : {0, 1, 2}) ledger.power_changes(InstanceId(i), at_s(0), Milliwatts(100'000), 0, 0);
  ledger.close(at_s(3600));
  EXPECT_NEAR(ledger.site(SiteId(0)).total.carbon.grams().value(), 3.6, 1e-12);
  EXPECT_NEAR(ledger.site(SiteId(1)).total.carbon.grams().value(), 72.0, 1e-12);
  EXPECT_NEAR(ledger.site(SiteId(1)).total.cost.usd().value(), 4.0, 1e-12);
  EXPECT_EQ(ledger.fleet().total, ledger.site(SiteId(0)).total + ledger.site(SiteId(1)).total);
}

TEST(Ledger, WhatNobodyMetersIsUnknownAndRequestsServedThenSaySo) {
  auto ledger = ledger_of(400.0);
  Account measured, partly, prompt;
  ledger.decode_joined(kOne, measured, at_s(0));
  ledger.power_changes(kOne, at_s(0), Milliwatts(100'000), 1, 0);
  ledger.decode_joined(kOne, partly, at_s(1));
  ledger.power_changes(kOne, at_s(1), Milliwatts(100'000), 2, 0);
  ledger.decode_left(kOne, measured, at_s(2));
  ledger.power_unknown(kOne, at_s(2), 1, 7);
  ledger.settle_prefill(kOne, at_s(3), std::vector<Ledger::Share>{{&prompt, 7}});
  ledger.decode_left(kOne, partly, at_s(3));
  ledger.power_changes(kOne, at_s(3), Milliwatts(100'000), 0, 0);
  ledger.close(at_s(5));
  Charge o = ledger.request_left({}, 1, measured);
  EXPECT_TRUE(o.metered);
  EXPECT_DOUBLE_EQ(o.energy.joules().value(), 150.0);
  for (const Account& account : {partly, prompt}) {
    o = ledger.request_left({}, 1, account);
    EXPECT_FALSE(o.metered);
  }
  EXPECT_EQ(ledger.usage().requests, 3);
  EXPECT_EQ(ledger.usage().unmetered_requests, 2);
  EXPECT_EQ(ledger.fleet().unmetered, Span::s(1));
  EXPECT_EQ(ledger.fleet().metered, Span::s(4));
  EXPECT_DOUBLE_EQ(joules(ledger.fleet().total), 400.0) << "the second nobody measured is in no sum";
  EXPECT_DOUBLE_EQ(ledger.fleet().idle_tail.joules().value(), 200.0);
}

TEST(Ledger, IdlePowerIsThatOfInstancesWithoutWorkAndOfSpareGpus) {
  Ledger ledger({SiteRates{}});
  ledger.add_instance(Instant(), 1);
  ledger.add_instance(Instant(), 1);
  ledger.power_changes(InstanceId(0), at_s(1), Milliwatts(400'000), 3, 0);
  ledger.power_changes(InstanceId(1), at_s(1), Milliwatts(80'000), 0, 0);
  ledger.spare_gpus(SiteId(0), 2, Milliwatts(30'000), at_s(1));
  EXPECT_EQ(ledger.idle_power(), Milliwatts(110'000));
  ledger.power_changes(InstanceId(0), at_s(2), Milliwatts(90'000), 0, 0);
  EXPECT_EQ(ledger.idle_power(), Milliwatts(200'000));
}

TEST(Ledger, WhatIsDrawnAtAnUnknownIntensityOrPriceHasNoCarbonOrCostOfARequest) {
  SiteRates rates;
  rates.intensity = *IntensitySeries::from_points({{at_s(0), GramsPerKwh(400.0)}}, at_s(10));
  rates.electricity = *PriceSeries::from_points({{at_s(0), UsdPerMwh(50.0)}}, at_s(20));
  Ledger ledger({rates});
  ledger.add_instance(Instant(), 1);
  const auto decode = [&](double from_s, double to_s, std::int64_t milliwatts) {
    Account account;
    ledger.decode_joined(kOne, account, at_s(from_s));
    ledger.power_changes(kOne, at_s(from_s), Milliwatts(milliwatts), 1, 0);
    ledger.decode_left(kOne, account, at_s(to_s));
    ledger.power_changes(kOne, at_s(to_s), Milliwatts(0), 0, 0);
    return ledger.request_left({}, 1, account);
  };
  const auto prompt = [&](double from_s, double to_s) {
    Account account;
    ledger.power_changes(kOne, at_s(from_s), Milliwatts(100'000), 0, 5);
    ledger.settle_prefill(kOne, at_s(to_s), std::vector<Ledger::Share>{{&account, 5}});
    ledger.power_changes(kOne, at_s(to_s), Milliwatts(0), 0, 0);
    return ledger.request_left({}, 1, account);
  };
  const auto is_known = [](double value) { return !std::isnan(value); };
  struct Case {
    Charge charge;
    bool carbon, cost;
  };
  const Case cases[] = {{decode(1, 3, 100'000), true, true},   {prompt(3, 4), true, true},
                        {decode(8, 12, 100'000), false, true}, {prompt(12, 13), false, true},
                        {decode(13, 14, 0), true, true},       {decode(18, 21, 100'000), false, false},
                        {prompt(21, 22), false, false}};
  for (const Case& one : cases) {
    const auto which = &one - cases;
    EXPECT_TRUE(one.charge.metered) << which;
    EXPECT_EQ(is_known(one.charge.carbon.value()), one.carbon) << which;
    EXPECT_EQ(is_known(one.charge.cost.value()), one.cost) << which;
  }
  EXPECT_EQ(ledger.usage().requests, 7);
  EXPECT_EQ(ledger.usage().unknown_carbon_requests, 4);
  EXPECT_EQ(ledger.usage().unknown_price_requests, 2);
  EXPECT_EQ(ledger.usage().booked, ledger.fleet().prefill + ledger.fleet().decode) << "and parts are the whole";
}

TEST(Ledger, TellsWhatIsDrawnWithoutClosing) {
  auto ledger = ledger_of(400.0);
  ledger.power_changes(kOne, at_s(1), Milliwatts(100'000), 0, 0);
  EXPECT_DOUBLE_EQ(ledger.energy_until(kOne, at_s(3)).joules().value(), 200.0);
  EXPECT_DOUBLE_EQ(joules(ledger.totals(kOne).total), 0.0);
}

/// INV-5 and its companion: no result depends on how often the ledger is called.
RC_GTEST_PROP(Ledger, PartsSumToTheWholeHoweverOftenItIsCalled, ()) {
  const auto series = IntensitySeries::from_points(
      {{at_s(0), GramsPerKwh(312.7)}, {at_s(3), GramsPerKwh(88.123456)}, {at_s(9), GramsPerKwh(-12.5)}});
  RC_ASSERT(series.has_value());
  const auto prices = PriceSeries::from_points({{at_s(1), UsdPerMwh(85.76)}, {at_s(4), UsdPerMwh(-12.345678)}});
  RC_ASSERT(prices.has_value());
  const SiteRates rates{"here", *series, *prices, UsdPerHour(1.99)};
  Ledger sparse({rates});
  Ledger chatty({rates});
  for (Ledger* ledger : {&sparse, &chatty}) ledger->add_instance(Instant(), 3);
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
  for (std::int32_t i = 0; i < 2; ++i) {
    Request request;
    request.tenant = TenantId(i);
    request.request_class = ClassId(7);
    RC_ASSERT(sparse.request_left(request, 1, a[i], ModelId(i)).energy == a[i].total().energy);
  }
  RC_ASSERT(sparse.by_tenant().at(TenantId(0)).booked + sparse.by_tenant().at(TenantId(1)).booked ==
            totals.prefill + totals.decode);
  RC_ASSERT(sparse.by_class().at(ClassId(7)).booked == totals.prefill + totals.decode);
  for (std::size_t i = 0; i < 2; ++i) {
    const ModelId model(static_cast<std::int32_t>(i));
    RC_ASSERT(sparse.usage(model).booked == a[i].total());
    RC_ASSERT(sparse.by_tenant(model).size() == 1U && sparse.by_class(model).at(ClassId(7)).booked == a[i].total());
  }
  RC_ASSERT(sparse.site(SiteId(0)).total == totals.total);
}

TEST(Ledger, WhatIsKeptIsBoundedByTheInstancesThatAreThere) {
  constexpr std::int32_t kAll = 5'000;
  auto ledger = ledger_of(360.0);  // number 0 stays
  for (std::int32_t i = 1; i <= kAll; ++i) {
    const InstanceId id(i);
    ledger.add_instance(at_s(i), 2);
    ledger.power_changes(id, at_s(i), Milliwatts(100'000), 0, 0);
    ledger.power_changes(id, at_s(i + 1), Milliwatts(0), 0, 0);
    ledger.instance_gone(id, at_s(i + 1));
  }
  EXPECT_EQ(ledger.instances(), 1U);
  const auto rows = ledger.by_instance();
  EXPECT_LT(rows.size(), 1'000U);
  EXPECT_EQ(rows.front().id, kOne);
  EXPECT_EQ(rows.back().id, InstanceId(kAll));
  EXPECT_EQ(std::ssize(rows) + ledger.other_instances(), kAll + 1);
  Totals sum = ledger.others();
  for (const auto& row : rows) sum += row.totals;
  EXPECT_EQ(sum.total, ledger.fleet().total);
  EXPECT_DOUBLE_EQ(joules(ledger.fleet().total), 100.0 * kAll) << "and nothing is lost";
  EXPECT_EQ(ledger.fleet().total.gpu_time, Span::s(2) * kAll);
}

}  // namespace
}  // namespace wattle::carbon
