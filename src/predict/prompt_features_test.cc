#include "predict/prompt_features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace wattle::predict {

TEST(PromptFeatures, CountsShapesAndWords) {
  const auto f = features_of("List 10 things?\n```c\n```", 7);
  EXPECT_FLOAT_EQ(f[0], std::log1p(7.0F));
  EXPECT_FLOAT_EQ(f[1], std::log1p(4.0F));  // list 10 things c
  EXPECT_FLOAT_EQ(f[2], std::log1p(1.0F));
  EXPECT_FLOAT_EQ(f[3], std::log1p(2.0F));
  EXPECT_FLOAT_EQ(f[4], std::log1p(2.0F));
  EXPECT_FLOAT_EQ(f[5], std::log1p(2.0F));
  float hashed = 0.0F;
  for (std::size_t i = kShapeFeatures; i < kPromptFeatures; ++i) hashed += std::expm1(f[i]);
  EXPECT_NEAR(hashed, 7.0F, 1e-4F);  // four words, three pairs
}

TEST(PromptFeatures, CaseDoesNotMatterOrderDoes) {
  EXPECT_EQ(features_of("Write AN essay", 3), features_of("write an ESSAY", 3));
  EXPECT_NE(features_of("write an essay", 3), features_of("an essay write", 3));
  const auto nothing = features_of("", -5);
  for (const float f : nothing) EXPECT_EQ(f, 0.0F);
  const auto odd = features_of(std::string("\xff\x00\x01`", 4), 0);
  for (const float f : odd) EXPECT_TRUE(std::isfinite(f));
}

}  // namespace wattle::predict
