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

TEST(Consumption, RequestsAtUnknownRatesAreCountedAndOfNothingElseNothingIsKnown) {
  std::vector<carbon::SiteRates> sites(1);
  sites[0].intensity = *carbon::IntensitySeries::from_points({{at_s(0), GramsPerKwh(50.0)}}, at_s(200));
  sites[0].gpu_price = UsdPerHour(2.0);
  carbon::Ledger ledger(std::move(sites));
  ledger.add_instance(Instant(), 1);
  for (const std::int32_t tenant : {0, 1, 1}) {
    const std::int64_t from_s = tenant == 0 ? 100 : 300 + 10 * ledger.usage().requests;
    carbon::Account account;
    ledger.decode_joined(InstanceId(0), account, at_s(from_s));
    ledger.power_changes(InstanceId(0), at_s(from_s), Milliwatts(1'000), 1, 0);
    ledger.decode_left(InstanceId(0), account, at_s(from_s + 5));
    ledger.power_changes(InstanceId(0), at_s(from_s + 5), Milliwatts(0), 0, 0);
    Request request;
    request.tenant = TenantId(tenant);
    const Charge charge = known(ledger, ledger.request_left(request, 1, account));
    EXPECT_EQ(std::isnan(charge.carbon.value()), tenant == 1);
    EXPECT_GT(charge.cost.value(), 0.0);
  }
  const auto used = consumption(ledger, "simulated", {}, nullptr);
  EXPECT_EQ(used.all_requests.unknown_carbon_requests, 2);
  EXPECT_GT(used.all_requests.carbon.value(), 0.0);
  ASSERT_EQ(used.by_tenant.size(), 2U);
  EXPECT_EQ(used.by_tenant[0].unknown_carbon_requests, 0);
  EXPECT_GT(used.by_tenant[0].carbon.value(), 0.0);
  EXPECT_EQ(used.by_tenant[1].unknown_carbon_requests, 2);
  EXPECT_TRUE(std::isnan(used.by_tenant[1].carbon.value()));
  EXPECT_GT(used.by_tenant[1].cost.value(), 0.0);
  EXPECT_EQ(used.by_tenant[1].unknown_price_requests, 0);
}

}  // namespace
}  // namespace wattle::control
