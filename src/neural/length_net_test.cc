#include "neural/length_net.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/random.h"

namespace wattle::neural {

namespace {
/// Prompts with a word among filler that determines the length.
std::vector<LengthExample> examples(std::size_t count, std::uint64_t seed) {
  constexpr std::array<const char*, 4> kAsks = {"Answer yes or no", "Summarise this in one sentence",
                                                "Explain step by step", "Write a long essay about it"};
  constexpr std::array<int, 4> kTokens = {3, 40, 300, 900};
  constexpr std::array<const char*, 8> kFiller = {"the", "grid", "was", "clean", "on", "monday", "and", "cheap"};
  RandomStream random(seed, "test.prompts");
  std::vector<LengthExample> out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t ask = random.below(4);
    std::string filler;
    for (std::size_t w = random.below(40); w > 0; --w) filler += fmt::format(" {}", kFiller[random.below(8)]);
    const double spread = std::exp(0.2 * random.normal());
    const auto tokens = static_cast<std::int32_t>(std::lround(kTokens[ask] * spread));
    out.push_back(
        {random.below(2) == 0 ? fmt::format("{}:{}", kAsks[ask], filler) : fmt::format("{}. {}?", filler, kAsks[ask]),
         tokens});
  }
  return out;
}

LengthNetOptions tiny() {
  return {.vocabulary = 256,
          .width = 16,
          .heads = 2,
          .layers = 1,
          .chunk = 16,
          .chunks = 4,
          .hidden = 8,
          .batch = 16,
          .epochs = 8,
          .learning_rate = 5e-3};
}

std::unique_ptr<LengthNet> must(Result<std::unique_ptr<LengthNet>> net) {
  EXPECT_TRUE(net.has_value()) << net.error().message();
  return net ? std::move(*net) : nullptr;
}
}  // namespace

TEST(LengthNet, ReadsTheAsk) {
  const auto net = must(train_length_net(examples(480, 1), tiny()));
  const auto unseen = examples(150, 2);
  double error = 0.0;
  double constant = 0.0;
  std::size_t right = 0;
  std::vector<std::int32_t> lengths;
  for (const auto& one : unseen) lengths.push_back(one.output_tokens);
  std::ranges::nth_element(lengths, lengths.begin() + 75);
  for (const auto& one : unseen) {
    const LengthGuess guess = net->predict(one.prompt);
    error += std::abs(guess.tokens - one.output_tokens);
    constant += std::abs(lengths[75] - one.output_tokens);
    right += (guess.long_probability > 0.5) == (one.output_tokens > 444) ? 1U : 0U;
  }
  EXPECT_LT(error, 0.4 * constant);
  EXPECT_GT(right, 140U);
}

TEST(LengthNet, EqualExamplesGiveEqualNetworksAndSavedOnesSayTheSame) {
  LengthNetOptions options = tiny();
  options.epochs = 1;
  const auto few = examples(32, 1);
  const auto one = must(train_length_net(few, options));
  const auto two = must(train_length_net(few, options));
  const auto loaded = must(load_length_net(one->save()));
  std::string long_prompt;
  for (int i = 0; i < 500; ++i) long_prompt += "word ";
  for (const std::string& prompt : {few[0].prompt, std::string(), std::string("\xff\x01 ?\n"), long_prompt}) {
    const LengthGuess said = one->predict(prompt);
    EXPECT_TRUE(std::isfinite(said.tokens) && said.tokens >= 0.0);
    EXPECT_EQ(said.tokens, two->predict(prompt).tokens);
    EXPECT_EQ(said.tokens, loaded->predict(prompt).tokens);
    EXPECT_EQ(said.long_probability, loaded->predict(prompt).long_probability);
  }
}

TEST(LengthNet, RefusesWhatItCannotLearnFrom) {
  EXPECT_FALSE(train_length_net(examples(15, 1), tiny()).has_value());
  auto negative = examples(16, 1);
  negative[3].output_tokens = -1;
  const auto refused = train_length_net(negative, tiny());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().where, "example 3");
  LengthNetOptions uneven = tiny();
  uneven.heads = 3;
  EXPECT_FALSE(train_length_net(examples(16, 1), uneven).has_value());
  EXPECT_FALSE(load_length_net("nonsense").has_value());
}

TEST(LengthNet, WordsAreLowerCaseAndStable) {
  const auto words = hashed_words("List 10 Things: list 10 things", 1000);
  ASSERT_EQ(words.size(), 7U);
  EXPECT_TRUE(std::equal(words.begin(), words.begin() + 3, words.begin() + 4));
  for (const auto w : words) EXPECT_TRUE(w >= 1 && w < 1000);
  EXPECT_TRUE(hashed_words(" \n\t", 1000).empty());
}

}  // namespace wattle::neural
