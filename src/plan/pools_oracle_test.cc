// FREESH's released planner data: every optimum of the published formulation, and the default one on the same windows.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "base/csv.h"
#include "base/file.h"
#include "plan/pools.h"
#include "plan/pools_check.h"
#include "plan/pools_csv.h"

namespace wattle::plan {
namespace {

constexpr std::size_t kSlots = 6;  // 30 minutes
constexpr double kBeta = 2.0;      // milp_oracle_beta2.csv
constexpr double kJoulesPerMwh = 3.6e9;

std::string data_folder() {
  const char* data = std::getenv("WATTLE_DATA");
  return data == nullptr ? "" : std::string(data) + "/LLM_Serving_FREESH/";
}

std::string text_of(const std::string& file) {
  const auto text = read_file(data_folder() + file);
  EXPECT_TRUE(text.has_value()) << file;
  return text.value_or("");
}

PoolsData released() {
  const std::string profile = text_of("pool_profile_llama3_70b.csv"), capacity = text_of("site_capacity.csv"),
                    slo = text_of("slo_limits.csv"), emissions = text_of("marginal_emission_3sites.csv"),
                    first = text_of("peak_qps_partition1.csv"), second = text_of("peak_qps_partition2.csv");
  PoolsTexts texts;
  texts.profile = {"profile", profile};
  texts.capacity = {"capacity", capacity};
  texts.slo = {"slo", slo};
  texts.emissions = {"emissions", emissions};
  texts.demand = {{"first", first}, {"second", second}};
  auto data = PoolsData::parse(texts, 0.3);
  EXPECT_TRUE(data.has_value()) << data.error().message();
  return *data;
}

/// Optima as printed: none where the window is infeasible.
std::map<std::pair<std::size_t, std::string>, std::optional<double>> oracle() {
  const std::string text = text_of("milp_oracle_beta2.csv");
  constexpr std::array<std::string_view, 5> kColumns = {"window_30min", "recomputed_carbon_p1", "recomputed_carbon_p2",
                                                        "recomputed_energy_j_p1", "recomputed_energy_j_p2"};
  auto csv = CsvReader::open(text, "oracle", kColumns);
  EXPECT_TRUE(csv.has_value());
  std::map<std::pair<std::size_t, std::string>, std::optional<double>> all;
  while (csv->next().value_or(false)) {
    const auto window = static_cast<std::size_t>(csv->whole(0, 0, 47).value_or(99));
    for (std::size_t i = 1; i < kColumns.size(); ++i) {
      auto& optimum = all[{window, std::string(kColumns[i])}];
      if (!csv->field(i).empty()) optimum = csv->number(i, -1e15, 1e15).value();
    }
  }
  return all;
}

TEST(PoolsOracle, PublishedReachesEveryReleasedOptimum) {
  if (data_folder().empty()) GTEST_SKIP() << "WATTLE_DATA is unset";
  const PoolsData data = released();
  int feasible = 0, infeasible = 0;
  for (const auto& [key, optimum] : oracle()) {
    const auto& [window, column] = key;
    const bool carbon = column.find("carbon") != std::string::npos;
    PoolsOptions options;
    options.formulation = PoolsFormulation::Published;
    options.relative_gap = 0.0;
    options.objective = {.carbon = carbon ? 1.0 : 0.0, .energy = carbon ? 0.0 : 1.0, .cost = 0.0};
    PoolsProblem problem = data.window(window * kSlots, kSlots, kBeta);
    const std::size_t partition = column.ends_with("p1") ? 0 : 1;
    problem.partitions = {problem.partitions[partition]};
    const auto plan = plan_pools(problem, options);
    ASSERT_TRUE(plan.has_value());
    EXPECT_TRUE(check_pools(problem, options, *plan).empty());
    if (!optimum) {
      EXPECT_EQ(plan->status, PoolsStatus::Infeasible) << window << " " << column;
      EXPECT_FALSE(plan->binding.empty());
      ++infeasible;
      continue;
    }
    ++feasible;
    ASSERT_EQ(plan->status, PoolsStatus::Planned) << window << " " << column;
    // The data set's carbon unit is lb/MWh x W x s.
    const double ours = carbon ? plan->objective * kJoulesPerMwh / kGramsPerKwhInLbsPerMwh / 1e3 : plan->objective;
    EXPECT_NEAR(ours, *optimum, 1e-6 * std::abs(*optimum)) << window << " " << column;
  }
  EXPECT_GE(feasible, 120);
  EXPECT_GE(infeasible, 2);
}

TEST(PoolsOracle, DefaultPlansEveryWindowWithoutIdleWorkers) {
  if (data_folder().empty()) GTEST_SKIP() << "WATTLE_DATA is unset";
  const PoolsData data = released();
  ASSERT_EQ(data.end_slot(), 288U);
  PoolsPlan previous;
  int relaxed = 0;
  for (std::size_t window = 0; window < data.end_window(kSlots); ++window) {
    const PoolsProblem problem = data.window(window * kSlots, kSlots, kBeta);
    const PoolsPlan* before = window > 0 ? &previous : nullptr;
    const auto plan = plan_pools(problem, {}, before);
    ASSERT_TRUE(plan.has_value());
    ASSERT_TRUE(plan->found()) << window << " " << plan->reason;
    for (const std::string& fault : check_pools(problem, {}, *plan, before)) ADD_FAILURE() << window << ": " << fault;
    if (plan->status != PoolsStatus::Planned) {
      ++relaxed;
      EXPECT_FALSE(plan->binding.empty()) << window;
    }
    for (const WorkerPool& pool : plan->pools) EXPECT_GT(pool.load_per_s, 0.0) << window;
    previous = *plan;
  }
  EXPECT_LT(relaxed, 6);  // partition 1 alone cannot carry windows 27, 32 and 34; partition 2 may
}

TEST(PoolsCsv, SaysWhereTheInputIsWrong) {
  const std::string profile =
      "partition,request_type,mode,tp,gpu,gpus_per_worker,worker_power_w,max_qps,mean_ttft_ms,mean_tbt_ms\n"
      "1,SS,1,TP2+TP4,A100+A6000,2+4,700,5,100,50\n";
  const std::string capacity = "site,a100,a6000\n1,4,8\n", slo = "request_type,ttft_ms,tbt_ms\nSS,300,150\n";
  const std::string demand = "slot_5min,ss_qps\n0,3\n1,4\n";
  const std::string emissions = "slot_5min,site1_g_co2_per_kwh\n0,100\n1,-20\n";
  const auto read = [&](const std::string& p, const std::string& c, const std::string& s, const std::string& d,
                        const std::string& e) {
    PoolsTexts texts{{"p.csv", p}, {"c.csv", c}, {"s.csv", s}, {"e.csv", e}, {{"d.csv", d}}, {}};
    const auto data = PoolsData::parse(texts, 0.3);
    return data ? std::string("ok") : data.error().message();
  };
  ASSERT_EQ(read(profile, capacity, slo, demand, emissions), "ok");
  PoolsTexts texts{{"p", profile}, {"c", capacity}, {"s", slo}, {"e", emissions}, {{"d", demand}}, {}};
  const PoolsProblem problem = PoolsData::parse(texts, 0.3)->window(1, 1, 2.0);
  EXPECT_EQ(problem.modes[0].gpus, (std::vector<int>{2, 4}));
  EXPECT_EQ(problem.partitions[0].types[0].demand_per_s, (std::vector<double>{2.0}));
  EXPECT_EQ(problem.sites[0].intensity, (std::vector<GramsPerKwh>{GramsPerKwh(-20)}));
  EXPECT_NEAR(problem.partitions[0].types[0].ratings[0]->idle.value(), 210.0, 1e-9);

  EXPECT_NE(read(profile + "1,SS,1,TP2+TP4,A100+A6000,2+4,700,5,100,50\n", capacity, slo, demand, emissions)
                .find("p.csv:3: mode is '1'; this partition, type and mode already have a row"),
            std::string::npos);
  EXPECT_NE(read(profile + "1,SL,1,TP4,A100,4,700,5,100,50\n", capacity, slo, demand, emissions).find("p.csv:3"),
            std::string::npos);
  EXPECT_NE(read(profile + "1,SL,2,TP4,A100,4,nan,5,100,50\n", capacity, slo, demand, emissions)
                .find("p.csv:3: worker_power_w is 'nan'"),
            std::string::npos);
  EXPECT_NE(read(profile, "site,a100\n1,4\n", slo, demand, emissions).find("no column 'a6000'"), std::string::npos);
  EXPECT_NE(read(profile, capacity, "request_type,ttft_ms,tbt_ms\n", demand, emissions)
                .find("s.csv: has no limits for type SS"),
            std::string::npos);
  EXPECT_NE(read(profile, capacity, slo, "slot_5min,ss_qps\n0,3\n2,4\n", emissions)
                .find("d.csv:3: slot_5min is '2'; slots count up by one without gaps: 1 is next"),
            std::string::npos);
  EXPECT_NE(read(profile, capacity, slo, "slot_5min,ss_qps\n0,-3\n", emissions).find("d.csv:2: ss_qps is '-3'"),
            std::string::npos);
  EXPECT_NE(read(profile, capacity, slo, "slot_5min,ss_qps\n0,3\n", emissions).find("e.csv: has 2 slots, d.csv has 1"),
            std::string::npos);
  EXPECT_NE(read(profile, capacity, slo, "slot_5min,ss_qps\n7,3\n8,4\n", emissions)
                .find("e.csv: begins at slot 0, d.csv at slot 7"),
            std::string::npos);
  EXPECT_NE(read(profile, capacity, slo, "slot_5min,ss_qps,sl_qps\n0,3,1\n1,4,1\n", emissions)
                .find("d.csv: has column 'sl_qps'; p.csv rates no worker for it in partition 1"),
            std::string::npos)
      << "demand that would be dropped";
  EXPECT_NE(read(profile + "1,SS,2,TP4,A100,4,0,5,100,50\n", capacity, slo, demand, emissions)
                .find("p.csv:3: worker_power_w is '0'; a worker that serves draws power"),
            std::string::npos);
  EXPECT_NE(read(profile + "1,,2,TP4,A100,4,700,5,100,50\n", capacity, slo, demand, emissions)
                .find("p.csv:3: request_type is ''; it needs a name"),
            std::string::npos);
  EXPECT_NE(
      read(profile, "site,a100,a6000\n,4,8\n", slo, demand, emissions).find("c.csv:2: site is ''; it needs a name"),
      std::string::npos);
}

/// Written by other hands: other line ends, order and further columns, idle power, a series cut out of a longer one.
TEST(PoolsCsv, TakesTheSameDataInOtherShapes) {
  const std::string profile =
      "\xef\xbb\xbf\r\nidle_power_w,note,mean_tbt_ms,mean_ttft_ms,max_qps,worker_power_w,gpus_per_worker,gpu,tp,mode,"
      "request_type,partition\r\n250,\"a, b\",50,100,5,700,2,A100,TP2,1,SS,1";
  const std::string capacity = "a100,site,comment\r\n4,1,x\r\n", slo = "ttft_ms,request_type,tbt_ms\n300,SS,150";
  const std::string demand = "ss_qps,slot_5min\n3,144\n4,145\n5,146\n";
  const std::string emissions = "site1_g_co2_per_kwh,slot_5min\n1e2,144\n-20,145\n30,146";
  const auto data =
      PoolsData::parse({{"p", profile}, {"c", capacity}, {"s", slo}, {"e", emissions}, {{"d", demand}}, {}}, 0.3);
  ASSERT_TRUE(data.has_value()) << data.error().message();
  EXPECT_EQ(data->first_slot(), 144U);
  EXPECT_EQ(data->end_slot(), 147U);
  EXPECT_EQ(data->first_window(2), 72U);
  EXPECT_EQ(data->end_window(2), 73U) << "the last slot alone is no window";
  const PoolsProblem problem = data->window(144, 2, 2.0);
  EXPECT_EQ(problem.partitions[0].types[0].demand_per_s, (std::vector<double>{1.5, 2.0}));
  EXPECT_EQ(problem.sites[0].intensity, (std::vector<GramsPerKwh>{GramsPerKwh(100), GramsPerKwh(-20)}));
  EXPECT_NEAR(problem.partitions[0].types[0].ratings[0]->idle.value(), 250.0, 1e-9);
}

}  // namespace
}  // namespace wattle::plan
