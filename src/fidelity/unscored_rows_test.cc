// Rows without a score say why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/scratch_folder.h"
#include "fidelity/h100_catalog_test.h"
#include "fidelity/page.h"
#include "fidelity/score.h"

namespace wattle::fidelity {
namespace {

bool one_has(const std::vector<std::string>& lines, std::string_view what) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.contains(what); });
}

constexpr std::string_view kMlEnergyHeader =
    "task,model_id,gpu_model,num_gpus,data_parallel,expert_parallel,weight_precision,max_num_seqs,avg_batch_size,"
    "avg_power_watts,median_itl_ms,energy_per_token_joules,avg_output_len\n";

TEST(Score, a_row_that_cannot_run_keeps_the_reason) {
  const ScratchFolder folder;
  folder.write("mlenergy/v3_llm_configs.csv",
               fmt::format("{}chat,meta-llama/Llama-3.1-8B-Instruct,H100,3,1,1,bfloat16,8,8,400,10,1,300\n"
                           "chat,meta-llama/Llama-3-70B-Instruct,H100,1,1,1,bfloat16,8,8,400,10,1,300\n"
                           "code,meta-llama/Llama-3.1-8B-Instruct,H100,1,1,1,bfloat16,8,8,400,10,1,9999999\n",
                           kMlEnergyHeader));
  Catalog catalog = h100_catalog();
  const auto all = collect(folder.path().string(), catalog);
  ASSERT_TRUE(all) << all.error().message();
  const Scores scores = score(all->experiments, catalog, 1, true);
  EXPECT_TRUE(one_has(scores.infeasible, "Llama-3.1-8B-Instruct batch=8, power_w (llama-3.1-8b on 3 x h100: "));
  EXPECT_TRUE(one_has(scores.infeasible, "GB per GPU for weights and activations"));
  EXPECT_TRUE(one_has(scores.infeasible, "power_w (a request exceeds the KV cache)"));
  EXPECT_NE(to_markdown(scores, {}, {}).find("a request exceeds the KV cache"), std::string::npos);

  catalog.profiles.clear();
  EXPECT_TRUE(one_has(score(all->experiments, catalog, 1, true).infeasible, "(h100: has no profile)"));
}

}  // namespace
}  // namespace wattle::fidelity
