#include "fidelity/sample_model.h"

#include <gtest/gtest.h>

namespace wattle::fidelity {
namespace {

LlmSpec mixture() {
  LlmSpec llm;
  llm.experts = 256;
  llm.experts_per_token = 8;
  return llm;
}

SampleShape row(std::int32_t tensor, std::int32_t data, std::int32_t moe_tensor, std::int32_t moe_expert) {
  SampleShape made;
  made.tensor = tensor;
  made.attention_data = data;
  made.moe_tensor = moe_tensor;
  made.moe_expert = moe_expert;
  return made;
}

void expect(const SampleShape& of, std::int32_t tensor, std::int32_t data, std::int32_t expert) {
  const auto shape = parallelism_of(of, mixture());
  ASSERT_TRUE(shape) << shape.error();
  EXPECT_EQ(shape->tensor, tensor);
  EXPECT_EQ(shape->data, data);
  EXPECT_EQ(shape->expert, expert);
}

TEST(SampleShape, DegreesStatedTwiceAreOneNode) {
  expect(row(8, 1, 8, 1), 8, 1, 1);
  expect(row(8, 1, 1, 8), 8, 1, 8);
  expect(row(64, 1, 8, 8), 8, 1, 8);
  expect(row(1, 64, 8, 8), 1, 8, 8);
  expect(row(1, 8, 1, 8), 1, 8, 8);
  expect(row(4, 4, 1, 16), 1, 4, 4);
}

TEST(SampleShape, TheGeneratorsColumnsAreTakenAtTheirWord) {
  SampleShape generated = row(8, 1, 2, 4);
  generated.generated = true;
  expect(generated, 8, 1, 4);
  generated.moe_expert = 2;
  EXPECT_FALSE(parallelism_of(generated, mixture())) << "8 GPUs of attention, 4 of experts";
}

TEST(SampleShape, ABatchOfDataParallelAttentionIsOneGroupsShare) {
  EXPECT_EQ(concurrency_of(row(8, 1, 8, 1), "x; silicon_concurrency=64; y", 32), 32);
  EXPECT_EQ(concurrency_of(row(1, 64, 8, 8), "x; silicon_concurrency=256; y", 4), 256);
  EXPECT_EQ(concurrency_of(row(1, 8, 1, 8), "gap-analysis", 4), 32);
}

}  // namespace
}  // namespace wattle::fidelity
