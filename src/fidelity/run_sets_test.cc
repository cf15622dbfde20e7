#include <gtest/gtest.h>

#include <algorithm>

#include "base/scratch_folder.h"
#include "fidelity/experiment.h"

namespace wattle::fidelity {
namespace {

TEST(VoltanaPanels, EveryPanelInTheFolderIsReadAndOnlyTheModelsSeenCountAsSeen) {
  const ScratchFolder data;
  const auto write = [&](const std::string& name, const std::string& model) {
    data.write("VoltanaLLM/" + name,
               "model,dataset,rps,system,energy_j\n" + model + ",ShareGPT,80,sglang_1410,100000\n");
  };
  write("paper_main_result_digitised.csv", "Llama-3.1-8B");
  write("paper_main_result_digitised_3b.csv", "Ministral-3B");
  write("paper_main_result_digitised_14b.csv", "Qwen3-14B");
  write("paper_main_result_digitised_32b.csv", "Qwen3-32B");
  write("notes.csv", "Qwen3-14B");

  Catalog catalog;
  GpuSpec gpu;
  gpu.name = "a100-80g";
  gpu.memory_bytes = 80e9;
  catalog.gpus["a100-80g"] = gpu;
  for (const auto& [name, layers] :
       {std::pair{"llama-3.1-8b", 32}, {"ministral-3b", 26}, {"qwen3-14b", 64}, {"qwen3-32b", 160}}) {
    LlmSpec llm;  // all of one width; as many layers as make the size
    llm.name = name;
    llm.layers = layers;
    catalog.llms[name] = llm;
  }
  Collection all;
  const auto collected = collect_runs(data.path().string(), catalog, all);
  ASSERT_TRUE(collected) << collected.error().message();
  ASSERT_EQ(all.experiments.size(), 4U);
  const auto of = [&](std::string_view model) -> const Experiment& {
    return *std::ranges::find_if(all.experiments, [&](const Experiment& e) { return e.row.starts_with(model); });
  };
  EXPECT_EQ(of("Llama-3.1-8B").set, "VoltanaLLM/fixed-clocks");
  EXPECT_TRUE(of("Ministral-3B").in_view);
  EXPECT_FALSE(of("Ministral-3B").fitted) << "a hand saw it, no fit";
  for (const char* unseen : {"Qwen3-14B", "Qwen3-32B"}) EXPECT_FALSE(of(unseen).fitted || of(unseen).in_view) << unseen;
  EXPECT_EQ(of("Qwen3-14B").tp, 1) << catalog.llms["qwen3-14b"].weight_bytes();
  EXPECT_EQ(of("Qwen3-32B").tp, 2) << catalog.llms["qwen3-32b"].weight_bytes();
}

TEST(VoltanaPanels, APointRunsAtTheClockOfItsNameAndIsLeftOutIfItsModelOrLengthsAreUnknown) {
  const ScratchFolder data;
  data.write("VoltanaLLM/paper_main_result_digitised.csv",
             "model,dataset,rps,system,energy_j\n"
             "Llama-3.1-8B,LMSYS,80,sglang_1200,100000\n"
             "acme/X-9B,LMSYS,80,sglang_1005,100000\n"
             "Llama-3.1-8B,AzureCode,80,sglang_1005,100000\n"
             "Llama-3.1-8B,LMSYS,80,sglang_9999,100000\n"
             "Llama-3.1-8B,LMSYS,80,voltana,100000\n"
             "Llama-3.1-8B,LMSYS,80,sglang_1410,\n");
  Catalog catalog;
  catalog.gpus["a100-80g"].name = "a100-80g";
  catalog.gpus["a100-80g"].clock_max = MegaHertz(1410);
  catalog.llms["llama-3.1-8b"].name = "llama-3.1-8b";
  Collection all;
  const auto collected = collect_runs(data.path().string(), catalog, all);
  ASSERT_TRUE(collected) << collected.error().message();
  ASSERT_EQ(all.experiments.size(), 1U);
  EXPECT_EQ(all.experiments[0].row, "Llama-3.1-8B LMSYS rps=80 mhz=1200");
  for (const char* reason : {"unknown model acme/X-9B", "unknown lengths of AzureCode",
                             "sglang_9999 is no clock of a100-80g", "no fixed clock: voltana", "no energy_j"}) {
    EXPECT_EQ((all.left_out[{"VoltanaLLM/fixed-clocks", reason}]), 1U) << reason;
  }
}

}  // namespace
}  // namespace wattle::fidelity
