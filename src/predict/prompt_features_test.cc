#include "predict/prompt_features.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace wattle::predict {

namespace {
float hashed(const PromptFeatures& f) {
  float sum = 0.0F;
  for (std::size_t i = kFirstWord; i < kPromptFeatures; ++i) sum += std::expm1(f[i]);
  return sum;
}
}  // namespace

TEST(PromptFeatures, CountsShapesAndWords) {
  const auto f = features_of({.prompt_tokens = 7, .max_tokens = 100}, "List 10 things?\n```c\n```");
  EXPECT_FLOAT_EQ(f[0], std::log1p(7.0F));
  EXPECT_FLOAT_EQ(f[1], std::log1p(100.0F));
  EXPECT_FLOAT_EQ(f[2], std::log1p(4.0F));  // list 10 things c
  EXPECT_FLOAT_EQ(f[3], std::log1p(1.0F));
  EXPECT_FLOAT_EQ(f[4], std::log1p(2.0F));
  EXPECT_FLOAT_EQ(f[5], std::log1p(2.0F));
  EXPECT_FLOAT_EQ(f[6], std::log1p(2.0F));
  EXPECT_NEAR(hashed(f), 7.0F, 1e-4F);  // four words, three pairs
}

TEST(PromptFeatures, CaseDoesNotMatterOrderDoes) {
  EXPECT_EQ(features_of({3}, "Write AN essay"), features_of({3}, "write an ESSAY"));
  EXPECT_NE(features_of({3}, "write an essay"), features_of({3}, "an essay write"));
  const auto nothing = features_of({-5, -1});
  for (const float f : nothing) EXPECT_EQ(f, 0.0F);
  const auto odd = features_of({}, std::string("\xff\x00\x01`", 4));
  for (const float f : odd) EXPECT_TRUE(std::isfinite(f));
}

TEST(PromptFeatures, TenantsAndModelsDiffer) {
  const auto one = features_of({.tenant = "acme"});
  EXPECT_EQ(std::ranges::count(one, 1.0F), 0) << "counts are logs";
  EXPECT_EQ(std::ranges::count(one, std::log1p(1.0F)), 1);
  EXPECT_NE(one, features_of({.tenant = "globex"}));
  EXPECT_NE(one, features_of({.model = "acme"}));
  EXPECT_NE(features_of({.model = "a"}), features_of({.model = "b"}));
}

TEST(PromptFeatures, OfJsonAreThoseOfItsTexts) {
  const char* const chat = R"([{"role":"system","content":"Be brief."},
    {"role" : "user", "content" : [{"type":"text","text":"What is \"\u00e9t\u00e9\"?\nSay \ud83d\ude00\\"},
                                   {"type":"image_url","image_url":{"url":"https://a.example/b"}}]}])";
  EXPECT_EQ(features_of_json({9}, chat), features_of({9}, "Be brief. What is \"\u00e9t\u00e9\"?\nSay \U0001F600\\"));
  EXPECT_EQ(features_of_json({}, R"("write \"it\"")"), features_of({}, "write \"it\""));
  EXPECT_EQ(features_of_json({}, R"(["one","two"])"), features_of({}, "one two"));
  EXPECT_EQ(features_of_json({}, "[[1,2,3]]"), features_of({}));
  EXPECT_EQ(features_of_json({}, "\"never closed"), features_of({})) << "whatever, but no crash";
}

RC_GTEST_PROP(PromptFeatures, AnyTextIsTheSameInJson, (const std::string& text)) {
  const std::string json = nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::ignore);
  const std::string valid = nlohmann::json::parse(json);
  RC_ASSERT(features_of_json({}, json) == features_of({}, valid));
}

TEST(PromptFeatures, OfALongTextBothEndsCount) {
  const std::string middle(4 * kMostText, ' ');
  const auto text = "essay" + middle + "briefly";
  EXPECT_EQ(features_of({}, text), features_of({}, "essay briefly"));
  EXPECT_EQ(features_of_json({}, '"' + text + '"'), features_of({}, "essay briefly"));
  const std::string unread = std::string(kMostText, ' ') + "never" + std::string(kMostText, ' ');
  EXPECT_EQ(features_of({}, unread), features_of({}));
  EXPECT_EQ(features_of_json({}, "[\"" + unread + "\",\"\"]"), features_of({}));
}

}  // namespace wattle::predict
