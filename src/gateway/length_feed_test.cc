// Lengths learned from what the gateway serves.
#include "gateway/length_feed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "gateway/rig_test.h"

namespace wattle::gateway {
namespace {

/// One tree: `few` tokens where the word "briefly" is in the prompt, else `many`.
std::shared_ptr<const predict::LengthTrees> trees_of(std::int32_t few, std::int32_t many) {
  const auto with = predict::features_of({}, "briefly");
  std::size_t word = predict::kFirstWord;
  while (with[word] == 0.0F) ++word;
  const nlohmann::json tree{{"left_children", {1, -1, -1}},
                            {"right_children", {2, -1, -1}},
                            {"split_indices", {word, 0, 0}},
                            {"split_conditions", {0.1, std::log1p(many), std::log1p(few)}},
                            {"split_type", {0, 0, 0}}};
  const nlohmann::json model{
      {"version", {1, 7, 4}},
      {"learner",
       {{"gradient_booster", {{"name", "gbtree"}, {"model", {{"trees", {tree}}}}}},
        {"objective", {{"name", "reg:absoluteerror"}}},
        {"learner_model_param", {{"num_feature", std::to_string(predict::kPromptFeatures)}, {"base_score", "0"}}}}}};
  auto trees = predict::LengthTrees::from_xgboost(model.dump());
  EXPECT_TRUE(trees.has_value()) << trees.error().message();
  return std::make_shared<const predict::LengthTrees>(std::move(*trees));
}

struct LengthRig {
  std::vector<predict::LengthAnswer> fitted_on;  ///< by the first fit
  std::atomic<int> fits{0};
  Rig rig;

  explicit LengthRig(std::shared_ptr<const predict::LengthTrees> first = nullptr)
      : rig({Role::Colocated}, 64, "", [&](GatewayOptions&, GatewayPolicies& policies) {
          const auto fit = [this](std::span<const predict::LengthAnswer> answers) {
            if (fits == 0) fitted_on.assign(answers.begin(), answers.end());
            ++fits;
            return Result<std::shared_ptr<const predict::LengthTrees>>(trees_of(3, 1000));
          };
          policies.lengths = std::make_shared<predict::LengthLearner>(
              fit, predict::LengthLearnerOptions{.fewest = 2, .every = 100}, first);
        }) {}
  /// What the request was hinted to be.
  std::int32_t hint(const std::string& content, const std::string& rest = "", const std::string& extra = "") {
    const std::string body =
        R"({"model":"m","messages":[{"role":"user","content":")" + content + R"("}],"max_tokens":5)" + rest + "}";
    const std::string answer = rig.ask(Rig::post(body, "/v1/chat/completions", extra));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
    rig.settled();
    return rig.sink.all.back().request.predicted_output_tokens;
  }
};

TEST(LengthFeed, FinishedRequestsAreLearnedFromAndTheNextAreHinted) {
  LengthRig rig;
  EXPECT_EQ(rig.hint("say it briefly"), 0) << "nothing is known yet";
  EXPECT_EQ(rig.hint("an essay"), 0);
  await([&] { return rig.rig.admin("/metrics").find("wattle_gateway_length_fits_total 1\n") != std::string::npos; });
  ASSERT_EQ(rig.fitted_on.size(), 2U);
  EXPECT_EQ(rig.fitted_on[0].tokens, rig.rig.sink.all[0].output_tokens);
  EXPECT_GT(rig.fitted_on[0].tokens, 0);
  const auto& learned = rig.fitted_on[0].prompt;
  const auto text = predict::features_of({}, "say it briefly");
  EXPECT_TRUE(std::equal(text.begin() + predict::kFirstWord, text.end(), learned.begin() + predict::kFirstWord));
  const auto named = predict::features_of({.model = "m"});
  for (std::size_t i = predict::kFirstWord - predict::kNameFeatures; i < predict::kFirstWord; ++i) {
    EXPECT_EQ(learned[i], named[i]) << "its model";
  }
  EXPECT_FLOAT_EQ(learned[1], std::log1p(5.0F)) << "the client's cap";
  EXPECT_EQ(rig.hint("briefly, please"), 3);
  EXPECT_EQ(rig.hint("an essay"), 1000);
  EXPECT_EQ(rig.fits, 1);
}

TEST(LengthFeed, BeginsWithTheTreesItIsGivenAndAClientsWordCounts) {
  LengthRig rig(trees_of(7, 500));
  EXPECT_EQ(rig.hint("briefly"), 7);
  EXPECT_EQ(rig.hint("briefly", "", "X-Wattle-Predicted-Output-Tokens: 42\r\n"), 42);
}

TEST(LengthFeed, SeveralAnswersAtOnceSayNothing) {
  LengthRig rig(trees_of(7, 500));
  EXPECT_EQ(rig.hint("briefly", R"(,"n":2)"), 0);
  EXPECT_NE(rig.rig.admin("/metrics").find("wattle_gateway_length_answers_total 0\n"), std::string::npos);
}

TEST(LengthFeed, AFitInProgressEndsBeforeItGoes) {
  std::atomic<bool> begun = false;
  std::atomic<bool> ended = false;
  {
    LengthFeed feed(std::make_shared<predict::LengthLearner>(
        [&](auto) {
          begun = true;
          begun.notify_all();
          std::this_thread::yield();
          ended = true;
          return Result<std::shared_ptr<const predict::LengthTrees>>(trees_of(1, 2));
        },
        predict::LengthLearnerOptions{.fewest = 1}));
    feed.finished(std::make_unique<predict::PromptFeatures>(), 5);
    begun.wait(false);
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace wattle::gateway
