#include "engine/expert_use.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace wattle::engine {
namespace {

/// min(1, c x weight), with c such that the sum is `picks`: a token picks an expert at most once.
std::vector<double> chances(std::vector<double> weights, double picks) {
  std::vector<double> chance(weights.size(), 1.0);
  double left = picks;
  double sum = 0.0;
  for (const double w : weights) sum += w;
  // Weights are sorted in descending order, so probabilities of 1 come first.
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double scale = left / sum;
    if (scale * weights[i] < 1.0) {
      for (std::size_t j = i; j < weights.size(); ++j) chance[j] = scale * weights[j];
      break;
    }
    left -= 1.0;
    sum -= weights[i];
  }
  return chance;
}

}  // namespace

ExpertUse::ExpertUse(const LlmSpec& llm, std::int32_t expert_parallel)
    : experts_(llm.experts), per_token_(llm.experts_per_token), groups_(expert_parallel) {
  if (llm.expert_skew <= 0.0 || llm.experts <= 1 || llm.experts_per_token >= llm.experts) return;
  std::vector<double> weights;
  for (std::int32_t i = 1; i <= llm.experts; ++i) weights.push_back(std::pow(i, -llm.expert_skew));
  chosen_ = chances(std::move(weights), per_token_);
  double hottest = 0.0;
  for (std::size_t i = 0; i < chosen_.size(); i += static_cast<std::size_t>(expert_parallel)) hottest += chosen_[i];
  hottest_ = hottest * groups_ / per_token_;
}

double ExpertUse::touched(double tokens) const {
  if (chosen_.empty()) return experts_ * (1.0 - std::pow(1.0 - per_token_ / experts_, tokens));
  double sum = 0.0;
  for (const double chance : chosen_) sum += 1.0 - std::pow(1.0 - chance, tokens);
  return sum;
}

double ExpertUse::imbalance(double tokens) const {
  if (groups_ <= 1.0) return 1.0;
  const double mean = tokens * per_token_ / groups_;
  const double deviation = std::sqrt(mean * (1.0 - 1.0 / groups_));
  const double even = 1.0 + deviation * std::sqrt(2.0 * std::log(groups_)) / mean;
  return std::min(groups_, std::max(even, hottest_));
}

}  // namespace wattle::engine
