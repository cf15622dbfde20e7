#include "control/consumption.h"

#include <gtest/gtest.h>

#include <cmath>

namespace wattle::control {
namespace {

Instant at_s(std::int64_t s) { return Instant() + Span::s(s); }

/// Two sites, each with an instance that draws 1 kW for `until_s` from 100 s on; the first has prices up to 200 s.
carbon::Ledger priced_until_200_s(std::int64_t until_s) {
  std::vector<carbon::SiteRates> sites(2);
  sites[0].name = "file";
  sites[0].electricity = *carbon::PriceSeries::from_points({{at_s(0), UsdPerMwh(50.0)}}, at_s(200));
  sites[1].name = "constant";
  sites[1].electricity = carbon::PriceSeries::constant(UsdPerMwh(80.0));
  carbon::Ledger ledger(std::move(sites));
  for (const std::int32_t site : {0, 1}) {
    ledger.add_instance(at_s(100), 1, SiteId(site));
    ledger.power_changes(InstanceId(site), at_s(100), Milliwatts(1'000'000), 0, 0);
  }
  ledger.close(at_s(until_s));
  return ledger;
}

TEST(Consumption, EnergyBeyondTheEndOfPricesIsSaidWithItsSite) {
  const auto used = consumption(priced_until_200_s(300), "simulated", {}, nullptr);
  EXPECT_DOUBLE_EQ(used.energy.unknown_price.value(), 100'000.0);
  ASSERT_EQ(used.by_site.size(), 2U);
  EXPECT_DOUBLE_EQ(used.by_site[0].unknown_price.value(), 100'000.0);
  EXPECT_DOUBLE_EQ(used.by_site[1].unknown_price.value(), 0.0);
  EXPECT_GT(used.by_site[0].cost.value(), 0.0) << "some of it was drawn at a known price";
  EXPECT_DOUBLE_EQ(used.energy.unknown_carbon.value(), 0.0);
}

TEST(Consumption, WhatWasDrawnAtUnknownPricesAloneCostNobodyKnowsWhat) {
  std::vector<carbon::SiteRates> sites(1);
  sites[0].electricity = *carbon::PriceSeries::from_points({{at_s(0), UsdPerMwh(50.0)}}, at_s(200));
  sites[0].gpu_price = UsdPerHour(2.0);
  carbon::Ledger ledger(std::move(sites));
  ledger.add_instance(at_s(300), 1);
  ledger.power_changes(InstanceId(0), at_s(300), Milliwatts(1'000'000), 0, 0);
  ledger.close(at_s(400));
  const auto used = consumption(ledger, "simulated", {}, nullptr);
  EXPECT_TRUE(std::isnan(used.cost.value()));
  EXPECT_TRUE(std::isnan(used.cost_split.electricity.value()));
  EXPECT_GT(used.cost_split.gpus.value(), 0.0) << "their time has its own price";
  EXPECT_TRUE(std::isnan(used.by_site[0].cost.value()));
}

}  // namespace
}  // namespace wattle::control
