#include <gtest/gtest.h>

#include <algorithm>

#include "base/scratch_folder.h"
#include "fidelity/experiment.h"
#include "fidelity/h100_catalog_test.h"

namespace wattle::fidelity {
namespace {

constexpr const char* kHeader =
    "task,gpu,model,config,TP,PP,Energy/req (J),Avg TPOT (s),Token tput (tok/s),Avg Output Tokens,Avg BS (reqs),"
    "Max BS (reqs)\n";

Catalog h100_and_two_models() {
  Catalog catalog = h100_catalog();
  catalog.llms.clear();
  LlmSpec llm;
  llm.name = "mistral-7b";
  catalog.llms["mistral-7b"] = llm;
  llm.name = "phi-3-mini";
  llm.layers = 12;
  catalog.llms["phi-3-mini"] = llm;
  return catalog;
}

Result<Collection> collected(const std::string& lines) {
  const ScratchFolder folder;
  folder.write("mlenergy/v2_llm_configs.csv", kHeader + lines);
  Collection to;
  const auto read = collect_ml_energy_2024(folder.path().string(), h100_and_two_models(), to);
  if (!read) return std::unexpected(read.error());
  return to;
}

TEST(MlEnergy2024, power_is_a_requests_energy_times_the_requests_a_second) {
  const auto all = collected(
      "chat,H100 80GB HBM3,mistralai/Mistral-7B-Instruct-v0.3,bs64+tp1+pp1,1,1,60,0.03,2000,400,64,64\n"
      "chat,H100 80GB HBM3,microsoft/Phi-3-mini-4k-instruct,bs64+tp1+pp1,1,1,60,0.03,2000,400,64,64\n");
  ASSERT_TRUE(all) << all.error().message();
  ASSERT_EQ(all->experiments.size(), 2U);
  const Experiment& e = all->experiments[0];
  EXPECT_EQ(e.set, "mlenergy-2024/h100-dense");
  ASSERT_EQ(e.quantities.size(), 3U);
  EXPECT_EQ(e.quantities[0].name, "tpot_mean_ms");
  EXPECT_DOUBLE_EQ(e.quantities[0].measured, 30.0);
  EXPECT_DOUBLE_EQ(e.quantities[1].measured, 300.0);
  EXPECT_DOUBLE_EQ(e.quantities[2].measured, 0.15);
  EXPECT_FALSE(e.in_view);
  EXPECT_TRUE(all->experiments[1].in_view) << "a small model: the engine's CPU times were chosen on it";

  const Catalog catalog = h100_and_two_models();
  const auto ours = e.simulate(catalog.profiles.at("h100"), Rival{});
  ASSERT_TRUE(ours) << ours.error().message();
  ASSERT_EQ(ours->values.size(), 3U);
  EXPECT_GT(ours->values[0], 32 * 0.55 + 64 * 0.22) << "at least the host's part of a step";
  EXPECT_GT(ours->values[1], 0.0);
}

TEST(MlEnergy2024, what_is_not_scored_is_listed_with_its_reason) {
  const auto all = collected(
      "chat,H100 80GB HBM3,mistralai/Mistral-7B-Instruct-v0.3,bs512+tp1+pp1,1,1,60,0.15,1000,400,500,512\n"
      "chat,H100 80GB HBM3,somebody/unknown-9b,bs64+tp1+pp1,1,1,60,0.03,2000,400,64,64\n");
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_TRUE(all->experiments.empty());
  const auto said = [&](const char* what) {
    return std::ranges::any_of(all->absent(), [&](const std::string& line) { return line.find(what) != line.npos; });
  };
  EXPECT_TRUE(said("1 row: unknown model somebody/unknown-9b"));
  EXPECT_TRUE(said("1 row: most of the run is its start and end")) << "500 requests at 150 ms are 3,333 tokens/s";
}

TEST(MlEnergy2024, a_cell_that_is_no_number_is_named) {
  const auto all =
      collected("chat,H100 80GB HBM3,mistralai/Mistral-7B-Instruct-v0.3,bs64+tp1+pp1,1,1,60,fast,2000,400,64,64\n");
  ASSERT_FALSE(all);
  EXPECT_NE(all.error().message().find("Avg TPOT (s)"), std::string::npos) << all.error().message();
  EXPECT_NE(all.error().message().find(":2"), std::string::npos) << all.error().message();
}

}  // namespace
}  // namespace wattle::fidelity
