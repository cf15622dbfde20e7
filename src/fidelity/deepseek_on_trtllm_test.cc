#include "fidelity/deepseek_on_trtllm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fidelity/aiconfigurator_client.h"

namespace wattle::fidelity {
namespace {

SampleRow row_of(const char* day, const char* image, std::int32_t slots = 16, const char* precision = "fp8") {
  const std::string source =
      fmt::format("source_file=x.csv; measured={}T00:00:00Z; image=nvcr.io/nvidia/tensorrt-llm/release:{}", day, image);
  return {source, "trtllm", "deepseek-v3", "b200", 1024, 1024, slots, 1, 8, precision};
}

engine::EngineOptions engine_of(const SampleRow& row) { return run_of(row).engine; }

TEST(DeepseekOnTrtllm, DraftsWhereImageAndDaySaySo) {
  const auto drafted = [](const char* day, const char* image) {
    return engine_of(row_of(day, image)).speculative_tokens;
  };
  EXPECT_EQ(drafted("2026-02-06", "1.2.0rc6.post3"), 3);
  EXPECT_EQ(drafted("2026-02-03", "1.2.0rc6.post2"), 0);
  EXPECT_EQ(drafted("2026-01-14", "1.1.0rc2.post2"), 3);
  EXPECT_EQ(drafted("2025-12-15", "1.1.0rc2.post2"), 0);
  SampleRow groups = row_of("2026-02-06", "1.2.0rc6.post3");
  groups.attention_data = 8;
  EXPECT_EQ(engine_of(groups).speculative_tokens, 1);
  EXPECT_EQ(engine_of(groups).receive_interval, 60);
  SampleRow other = row_of("2026-02-06", "1.2.0rc6.post3");
  other.model = "gpt-oss-120b";
  EXPECT_EQ(engine_of(other).speculative_tokens, 0);
  other.source = "source_file=x.csv; measured=2025-11-02T00:00:00.000Z; wip=False";
  other.model = "deepseek-v3";
  EXPECT_EQ(engine_of(other).speculative_tokens, 0);
}

TEST(DeepseekOnTrtllm, RoomForOnePromptUntilItsScriptsWereTuned) {
  const auto tokens = [](const char* image, std::int32_t slots) {
    return engine_of(row_of("2026-02-06", image, slots)).max_num_batched_tokens;
  };
  EXPECT_EQ(tokens("1.1.0", 64), 1152);
  EXPECT_EQ(tokens("1.2.0rc6.post2", 64), 8192);
  EXPECT_EQ(tokens("1.2.0rc6.post3", 64), 1344) << "a token and three drafts of each slot";
}

TEST(DeepseekOnTrtllm, PiecewiseGraphsByScript) {
  const auto launches = [](const char* image, std::int32_t slots, const char* precision, std::int32_t expert = 1) {
    SampleRow row = row_of("2026-02-06", image, slots, precision);
    row.expert = expert;
    return engine_of(row).launch_share;
  };
  const double few = launches("1.1.0", 64, "fp8");
  const double with_graphs = launches("1.2.0rc6.post2", 64, "fp8");
  EXPECT_LT(with_graphs, few);
  EXPECT_EQ(launches("1.2.0rc6.post2", 32, "fp8"), few);
  EXPECT_EQ(launches("1.2.0rc6.post3", 4, "fp8"), few);
  EXPECT_EQ(launches("1.2.0rc6.post3", 8, "fp8"), with_graphs);
  EXPECT_EQ(launches("1.2.0rc6.post3", 16, "fp4"), few);
  EXPECT_EQ(launches("1.2.0rc6.post3", 64, "fp4"), with_graphs);
  EXPECT_EQ(launches("1.2.0rc6.post2", 16, "fp4"), few);
  EXPECT_EQ(launches("1.2.0rc6.post2", 16, "fp4", 8), with_graphs);
  SampleRow hopper = row_of("2026-02-06", "1.2.0rc6.post2", 64);
  hopper.gpu = "h200";
  EXPECT_EQ(engine_of(hopper).launch_share, 1.0);
}

TEST(DeepseekOnTrtllm, PromptsWaitForOthersWhereItsScriptSaysSo) {
  EXPECT_EQ(engine_of(row_of("2026-01-29", "1.2.0rc6.post2", 64)).batch_wait_steps, 40);
  EXPECT_EQ(engine_of(row_of("2026-01-29", "1.2.0rc6.post2", 32)).batch_wait_steps, 0);
  EXPECT_EQ(engine_of(row_of("2025-12-15", "1.1.0rc2.post2", 64)).batch_wait_steps, 0);
}

}  // namespace
}  // namespace wattle::fidelity
