#include "length_contest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "learn/length_trainer.h"
#include "predict/length_belief.h"
#include "predict/length_learner.h"
#include "predict/pinball.h"

namespace wattle::apps {

namespace {

using predict::PromptFeatures;

class RunningMean final : public LengthPredictor {
 public:
  double predict(const LengthRow&, const PromptFeatures&) override { return count_ == 0.0 ? 0.0 : sum_ / count_; }
  Result<void> learn(const LengthRow& row, const PromptFeatures&) override {
    sum_ += row.output_tokens;
    ++count_;
    return {};
  }

 private:
  double sum_ = 0.0;
  double count_ = 0.0;
};

class RunningMedian final : public LengthPredictor {
 public:
  double predict(const LengthRow&, const PromptFeatures&) override { return sketch_.quantile(0.5); }
  Result<void> learn(const LengthRow& row, const PromptFeatures&) override {
    sketch_.add(row.output_tokens);
    return {};
  }

 private:
  predict::LengthSketch sketch_;
};

/// A recipe's belief, with its fallback.
class RecipeBelief final : public LengthPredictor {
 public:
  explicit RecipeBelief(predict::LengthBeliefOptions options, std::unique_ptr<LengthPredictor> hints = nullptr)
      : belief_(options), hints_(std::move(hints)) {}
  double predict(const LengthRow& row, const PromptFeatures& features) override {
    return belief_.predict(request_of(row, features));
  }
  Result<void> learn(const LengthRow& row, const PromptFeatures& features) override {
    Outcome outcome;
    outcome.request = request_of(row, features);
    outcome.fate = Fate::Finished;
    outcome.output_tokens = row.output_tokens;
    belief_.observe(outcome);
    return hints_ ? hints_->learn(row, features) : Result<void>();
  }

 private:
  Request request_of(const LengthRow& row, const PromptFeatures& features) {
    constexpr std::int32_t kNoCap = 1 << 30;
    Request request;
    request.prompt_tokens = row.prompt_tokens;
    request.max_tokens = row.max_tokens > 0 ? row.max_tokens : kNoCap;
    const auto next = static_cast<std::int32_t>(tenants_.size());
    request.tenant = TenantId(tenants_.try_emplace(row.tenant, next).first->second);
    if (hints_) request.predicted_output_tokens = static_cast<std::int32_t>(hints_->predict(row, features));
    return request;
  }
  predict::LengthBelief belief_;
  std::unique_ptr<LengthPredictor> hints_;
  std::map<std::string, std::int32_t> tenants_;
};

/// Retrained as answers arrive.
class OnlineTrees final : public LengthPredictor {
 public:
  explicit OnlineTrees(std::uint64_t seed) : learner_(learn::length_fit({.seed = seed}), {}) {}
  double predict(const LengthRow&, const PromptFeatures& features) override { return learner_.predict(features); }
  Result<void> learn(const LengthRow& row, const PromptFeatures& features) override {
    learner_.observe(features, row.output_tokens);
    if (!learner_.due()) return {};
    auto trees = learner_.fitting()(learner_.begin_fit());
    if (!trees) return std::unexpected(trees.error());
    learner_.end_fit(std::move(trees));
    return {};
  }

 private:
  predict::LengthLearner learner_;
};

class FixedTrees final : public LengthPredictor {
 public:
  explicit FixedTrees(std::uint64_t seed) : seed_(seed) {}
  Result<void> fit(const std::vector<LengthRow>& rows, const std::vector<PromptFeatures>& features,
                   std::size_t count) override {
    std::vector<predict::LengthAnswer> answers;
    for (std::size_t i = 0; i < count; ++i) answers.push_back({features[i], rows[i].output_tokens});
    auto trees = learn::length_fit({.seed = seed_})(answers);
    if (!trees) return std::unexpected(trees.error());
    trees_ = std::move(*trees);
    return {};
  }
  double predict(const LengthRow&, const PromptFeatures& features) override {
    return predict::LengthLearner::predict(trees_.get(), features);
  }

 private:
  std::uint64_t seed_;
  std::shared_ptr<const predict::LengthTrees> trees_;
};

class Net final : public LengthPredictor {
 public:
  explicit Net(TrainLengthNet train) : train_(std::move(train)) {}
  Result<void> fit(const std::vector<LengthRow>& rows, const std::vector<PromptFeatures>&, std::size_t count) override {
    std::vector<neural::LengthExample> examples;
    for (std::size_t i = 0; i < count; ++i) examples.push_back({rows[i].prompt, rows[i].output_tokens});
    auto net = train_(examples);
    if (!net) return std::unexpected(net.error());
    net_ = std::move(*net);
    return {};
  }
  double predict(const LengthRow& row, const PromptFeatures&) override {
    return net_ ? std::max(std::round(net_->predict(row.prompt).tokens), 1.0) : 0.0;
  }

 private:
  TrainLengthNet train_;
  std::unique_ptr<neural::LengthNet> net_;
};

double cpu_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Sums over the held-out rows.
class Sums {
 public:
  explicit Sums(const std::vector<std::int32_t>& borders) : borders_(borders) {}
  void add(double truth, double said) {
    ++rows_;
    absolute_ += std::abs(truth - said);
    relative_ += std::abs(truth - said) / truth;
    squared_ += (truth - said) * (truth - said);
    truths_ += truth;
    truths_squared_ += truth * truth;
    pinball_50_ += predict::pinball(truth, said, 0.5);
    const double high = said * ninth();
    pinball_90_ += predict::pinball(truth, high, 0.9);
    covered_ += truth <= high ? 1.0 : 0.0;
    right_ += class_of(truth) == class_of(said) ? 1.0 : 0.0;
    const double ratio = truth / said;
    ratios_.insert(std::ranges::upper_bound(ratios_, ratio), ratio);
  }
  void write(LengthContestScore& score) const {
    score.mae = absolute_ / rows_;
    score.mape = relative_ / rows_;
    score.pinball_50 = pinball_50_ / rows_;
    score.pinball_90 = pinball_90_ / rows_;
    score.coverage_90 = covered_ / rows_;
    const double spread = truths_squared_ - truths_ * truths_ / rows_;
    score.r2 = spread > 0.0 ? 1.0 - squared_ / spread : 0.0;
    score.accuracy = right_ / rows_;
  }

 private:
  [[nodiscard]] double ninth() const {
    return ratios_.empty() ? 1.0 : ratios_[static_cast<std::size_t>(0.9 * static_cast<double>(ratios_.size()))];
  }
  [[nodiscard]] std::ptrdiff_t class_of(double tokens) const {
    return std::ranges::upper_bound(borders_, static_cast<std::int32_t>(tokens)) - borders_.begin();
  }
  const std::vector<std::int32_t>& borders_;
  std::vector<double> ratios_;  ///< ascending
  double rows_ = 0.0, absolute_ = 0.0, relative_ = 0.0, squared_ = 0.0, truths_ = 0.0, truths_squared_ = 0.0;
  double pinball_50_ = 0.0, pinball_90_ = 0.0, covered_ = 0.0, right_ = 0.0;
};

}  // namespace

std::vector<NamedPredictor> length_predictors(std::uint64_t seed) {
  using Options = predict::LengthBeliefOptions;
  std::vector<NamedPredictor> all;
  all.push_back({"running mean", std::make_unique<RunningMean>()});
  all.push_back({"running median", std::make_unique<RunningMedian>()});
  all.push_back({"recipe: learned", std::make_unique<RecipeBelief>(Options{.source = Options::Source::Learned})});
  all.push_back({"recipe: trees", std::make_unique<RecipeBelief>(Options{.source = Options::Source::Hint},
                                                                 std::make_unique<OnlineTrees>(seed))});
  all.push_back({"trees, never doubted", std::make_unique<OnlineTrees>(seed)});
  all.push_back({"trees, trained once", std::make_unique<FixedTrees>(seed)});
  return all;
}

NamedPredictor length_net(TrainLengthNet train) { return {"net", std::make_unique<Net>(std::move(train))}; }

Result<LengthContestScore> contest(LengthPredictor& predictor, const std::vector<LengthRow>& rows,
                                   const std::vector<PromptFeatures>& features, std::size_t held_from,
                                   const std::vector<std::int32_t>& borders) {
  LengthContestScore score;
  Sums sums(borders);
  const double begun = cpu_s();
  if (auto ok = predictor.fit(rows, features, held_from); !ok) return std::unexpected(ok.error());
  double asked_s = 0.0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i >= held_from) {
      const double before = cpu_s();
      const double said = predictor.predict(rows[i], features[i]);
      asked_s += cpu_s() - before;
      sums.add(rows[i].output_tokens, std::max(said, 1.0));
    }
    if (auto ok = predictor.learn(rows[i], features[i]); !ok) return std::unexpected(ok.error());
  }
  sums.write(score);
  score.ask_us = 1e6 * asked_s / static_cast<double>(rows.size() - held_from);
  score.fit_s = cpu_s() - begun - asked_s;
  return score;
}

}  // namespace wattle::apps
