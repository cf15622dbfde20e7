#include "loadgen/completion_body.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>

namespace wattle::loadgen {
namespace {

constexpr std::array kForms{PromptForm::TokenIds, PromptForm::Text, PromptForm::Chat};

nlohmann::json prompt_in(PromptForm form, const Prompt& prompt) {
  const auto body = nlohmann::json::parse(completion_body({form, "m \"x\"", prompt, 7, form == PromptForm::Text}));
  EXPECT_EQ(body["model"], "m \"x\"");
  EXPECT_EQ(body["max_tokens"], 7);
  EXPECT_EQ(body["ignore_eos"], true);
  EXPECT_EQ(body.contains("stream_options"), form == PromptForm::Text);
  return form == PromptForm::Chat ? body["messages"][0]["content"] : body["prompt"];
}

/// The first tokens, as text.
std::string first(PromptForm form, std::size_t tokens, const nlohmann::json& prompt) {
  if (form != PromptForm::TokenIds) return prompt.get<std::string>().substr(0, 4 * tokens);
  return nlohmann::json(std::vector(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(tokens))).dump();
}

TEST(CompletionBody, HasTheLengthAskedForAndABeginningOfItsOwn) {
  for (const PromptForm form : kForms) {
    std::set<std::string> beginnings;
    for (std::uint64_t own = 1000; own < 1100; ++own) {
      const auto prompt = prompt_in(form, {40, nullptr, own});
      if (form == PromptForm::TokenIds) {
        EXPECT_EQ(prompt.size(), 40U);
        for (const auto& id : prompt)
          EXPECT_TRUE(id >= 32 && id < 256) << id << " may be no token of a small vocabulary";
      } else {
        EXPECT_EQ(prompt.get<std::string>().size(), 4 * 40U) << "four bytes a token, as those who estimate have it";
      }
      beginnings.insert(first(form, kTextBlockTokens, prompt));
    }
    EXPECT_EQ(beginnings.size(), 100U);
  }
}

TEST(CompletionBody, PromptsAreEqualAsFarAsTheirContentIs) {
  const PromptContent one = chained(32, std::array<std::uint64_t, 3>{1, 2, 3});
  const PromptContent other = chained(32, std::array<std::uint64_t, 3>{1, 2, 4});
  for (const PromptForm form : kForms) {
    const auto a = prompt_in(form, {100, one, 1});
    const auto b = prompt_in(form, {100, other, 2});
    const auto c = prompt_in(form, {120, one, 3});
    EXPECT_EQ(first(form, 64, a), first(form, 64, b));
    EXPECT_NE(first(form, 80, a), first(form, 80, b));
    EXPECT_EQ(first(form, 96, a), first(form, 96, c)) << "two prompts of the same blocks";
    EXPECT_NE(first(form, 100, a), first(form, 100, c)) << "but not beyond them";
    EXPECT_NE(first(form, 16, a), first(form, 16, prompt_in(form, {100, nullptr, 1})));
  }
}

}  // namespace
}  // namespace wattle::loadgen
