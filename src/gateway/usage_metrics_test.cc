#include "gateway/usage_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace wattle::gateway {
namespace {

constexpr double kUnknown = NAN;

journal::UsageRow row(std::string name, double joules, double grams, double dollars) {
  journal::UsageRow made;
  made.name = std::move(name);
  made.energy = Joules(joules);
  made.carbon = GramsCo2(grams);
  made.cost = Usd(dollars);
  return made;
}

TEST(UsageMetrics, HaveASampleForEachModelsTenantsAndClasses) {
  journal::Consumption used;
  used.energy.prefill = Joules(3.0);
  used.energy.decode = Joules(4.5);
  used.energy.residue = Joules(0.5);
  used.carbon = GramsCo2(0.25);
  used.cost = Usd(0.125);
  used.energy.unknown_price = Joules(1.5);
  const std::vector<control::ModelUsage> models = {{row("m", 4.0, 0.0, kUnknown),
                                                    {row("", 1.5, 0.5, kUnknown), row("a\"b\\c", 2.5, -0.5, 1.0)},
                                                    {row("0", 4.0, 0.0, 1.0)}},
                                                   {row("n", 0.5, 0.25, 2.0), {row("", 0.5, 0.25, 2.0)}, {}}};
  used.unmetered_s = 2.5;
  const std::string text = usage_metrics(used, models);
  for (const char* line :
       {"wattle_gateway_energy_joules_total{part=\"prefill\"} 3\n",
        "wattle_gateway_energy_joules_total{part=\"decode\"} 4.5\n", "wattle_gateway_carbon_grams 0.25\n",
        "# TYPE wattle_gateway_energy_residue_joules gauge\nwattle_gateway_energy_residue_joules 0.5\n",
        "wattle_gateway_cost_usd 0.125\n", "wattle_gateway_energy_of_unknown_price_joules_total 1.5\n",
        "wattle_gateway_model_energy_joules_total{model=\"m\"} 4\n", "wattle_gateway_model_cost_usd{model=\"n\"} 2\n",
        "wattle_gateway_tenant_energy_joules_total{model=\"n\",tenant=\"\"} 0.5\n",
        "wattle_gateway_tenant_energy_joules_total{model=\"m\",tenant=\"\"} 1.5\n",
        "wattle_gateway_tenant_energy_joules_total{model=\"m\",tenant=\"a\\\"b\\\\c\"} 2.5\n",
        "wattle_gateway_tenant_carbon_grams{model=\"m\",tenant=\"a\\\"b\\\\c\"} -0.5\n",
        "wattle_gateway_tenant_cost_usd{model=\"m\",tenant=\"a\\\"b\\\\c\"} 1\n",
        "wattle_gateway_class_energy_joules_total{model=\"m\",class=\"0\"} 4\n",
        "wattle_gateway_unmetered_seconds_total 2.5\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("part=\"residue\""), std::string::npos) << "it falls, and that is a counter";
  EXPECT_EQ(text.find("tenant_cost_usd{model=\"m\",tenant=\"\"}"), std::string::npos) << "unknown";
}

TEST(UsageMetrics, AnUnknownIntensityIsNotZero) {
  const std::vector<SiteIntensity> sites = {{"north", GramsPerKwh(302.5)}, {"south", std::nullopt}};
  const std::string text = intensity_metrics(sites);
  for (const char* line : {"\nwattle_gateway_site_intensity_known{site=\"north\"} 1\n",
                           "\nwattle_gateway_site_intensity_known{site=\"south\"} 0\n",
                           "\nwattle_gateway_site_intensity_grams_per_kwh{site=\"north\"} 302.5\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("kwh{site=\"south\"}"), std::string::npos) << text;
}

TEST(UsageMetrics, LeaveOutWhatNobodyMetered) {
  journal::Consumption used;
  used.energy = {Joules(kUnknown), Joules(kUnknown), Joules(kUnknown), Joules(kUnknown), Joules(kUnknown),
                 Joules(kUnknown), Joules(kUnknown), Joules(kUnknown), Joules(kUnknown)};
  used.carbon = GramsCo2(kUnknown);
  used.cost = Usd(kUnknown);
  const std::vector<control::ModelUsage> models = {
      {row("m", kUnknown, kUnknown, kUnknown), {row("t", kUnknown, kUnknown, kUnknown)}, {}}};
  const std::string text = usage_metrics(used, models);
  EXPECT_EQ(text.find("\nwattle_gateway_energy_of_unknown_carbon_joules_total"), std::string::npos) << text;
  EXPECT_EQ(text.find("\nwattle_gateway_energy_of_unknown_price_joules_total"), std::string::npos) << text;
  EXPECT_EQ(text.find("{model="), std::string::npos) << text;
  EXPECT_NE(text.find("# HELP wattle_gateway_energy_joules_total "), std::string::npos);
  EXPECT_NE(text.find("# TYPE wattle_gateway_tenant_energy_joules_total counter\n"), std::string::npos);
}

}  // namespace
}  // namespace wattle::gateway
