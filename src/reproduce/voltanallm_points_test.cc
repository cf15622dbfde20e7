#include "reproduce/voltanallm_points.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/scratch_folder.h"
#include "config/locate.h"

namespace wattle::reproduce {
namespace {

/// WATTLE_DATA is `folder` as long as this lives.
class DataIn {
 public:
  explicit DataIn(const std::string& folder) : before_(config::data_dir()) { setenv("WATTLE_DATA", folder.c_str(), 1); }
  ~DataIn() { setenv("WATTLE_DATA", before_.c_str(), 1); }
  DataIn(const DataIn&) = delete;
  DataIn& operator=(const DataIn&) = delete;

 private:
  std::string before_;
};

Result<PublishedPoints> points_of(const std::string& lines) {
  const ScratchFolder folder;
  folder.write("VoltanaLLM/paper_main_result_digitised.csv",
               "model,dataset,rps,system,energy_j,ttft_attainment_pct,itl_attainment_pct\n" + lines);
  const DataIn data(folder.path().string());
  return published_points();
}

TEST(VoltanaPoints, WhatTheEvaluationDoesNotKnowIsLeftOutWithItsReason) {
  const auto published = points_of(
      "Llama-3.1-8B,LMSYS,80,voltana,100000,99,nan\n"
      "Qwen3-14B,LMSYS,80,voltana,100000,99,99\n"
      "Qwen3-14B,LMSYS,90,voltana,100000,99,99\n"
      "Llama-3.1-8B,AzureCode,80,voltana,100000,99,99\n"
      "Llama-3.1-8B,LMSYS,80,sglang_1200,100000,99,99\n");
  ASSERT_TRUE(published) << published.error().message();
  ASSERT_EQ(published->points.size(), 1U);
  EXPECT_EQ(published->points[0].ttft_percent, 99.0);
  EXPECT_FALSE(published->points[0].itl_percent);
  EXPECT_EQ(published->left_out, (std::map<std::string, std::size_t>{{"no published objectives of Qwen3-14B", 2},
                                                                     {"unknown lengths of AzureCode", 1},
                                                                     {"unknown system sglang_1200", 1}}));
}

TEST(VoltanaPoints, AnEnergyOfNothingIsAnError) {
  const auto published = points_of("Qwen3-14B,LMSYS,80,voltana,0,99,99\n");
  ASSERT_FALSE(published);
  EXPECT_NE(published.error().message().find("paper_main_result_digitised.csv:2: energy_j"), std::string::npos)
      << published.error().message();
}

}  // namespace
}  // namespace wattle::reproduce
