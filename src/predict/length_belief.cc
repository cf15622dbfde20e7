#include "predict/length_belief.h"

#include <algorithm>

#include "base/check.h"
#include "predict/pinball.h"

namespace wattle::predict {

namespace {

constexpr std::int64_t kWarmUp = 100;  ///< answers before anybody is judged
constexpr double kMemory = 1000.0;     ///< answers a score looks back on

}  // namespace

LengthBelief::LengthBelief(LengthBeliefOptions options) : options_(options) {
  WATTLE_CHECK(options_.quantile > 0.0 && options_.quantile < 1.0, "a quantile lies between 0 and 1");
}

bool LengthBelief::falls_back() const {
  return options_.fall_back && score_.scored >= kWarmUp && score_.predictor >= score_.constant;
}

std::int32_t LengthBelief::raw(const Request& request) const {
  if (options_.source == LengthBeliefOptions::Source::Hint) return request.predicted_output_tokens;
  return learned_.quantile(request, options_.quantile, 0);
}

LengthBelief::Answer LengthBelief::answer(const Request& request) {
  std::int32_t tokens = raw(request);
  const char* fallback = nullptr;
  if (tokens < 0) ++counts_.odd;
  if (tokens == 0) ++counts_.absent;
  if (options_.fall_back && (tokens <= 0 || falls_back())) {
    const bool known = constant_.count() >= LengthSketches::kFewest;
    if (known) {
      ++counts_.fallen_back;
      fallback = tokens <= 0 ? "no prediction: the constant answers" : "no better than the constant, which answers";
    }
    tokens = known ? constant_.quantile(options_.quantile) : std::max(tokens, 0);
  }
  if (tokens <= 0) return {};
  ++counts_.predicted;
  const std::int32_t cap = std::max(request.max_tokens, 1);
  if (tokens > cap) ++counts_.too_long;
  return {std::min(tokens, cap), fallback};
}

std::int32_t LengthBelief::expected_tokens(const Request& request, std::int32_t produced) const {
  const std::int32_t cap = std::max(request.max_tokens, 1);
  if (produced >= cap) return 0;
  std::int32_t tokens = produced == 0 ? raw(request) : 0;
  if (tokens <= produced) tokens = learned_.quantile(request, options_.quantile, produced);
  return tokens <= produced ? 0 : std::min(tokens, cap);
}

void LengthBelief::observe(const Outcome& outcome) {
  if (outcome.fate != Fate::Finished || outcome.output_tokens < 1) return;
  const std::int32_t truth = outcome.output_tokens;
  const std::int32_t cap = std::max(outcome.request.max_tokens, 1);
  const std::int32_t predicted = raw(outcome.request);
  const std::int32_t constant = constant_.quantile(options_.quantile);
  if (constant > 0 && predicted > 0) {
    const double p = pinball(truth, std::min(predicted, cap), options_.quantile);
    const double c = pinball(truth, std::min(constant, cap), options_.quantile);
    const double share = 1.0 / std::min(static_cast<double>(++score_.scored), kMemory);
    score_.predictor += share * (p - score_.predictor);
    score_.constant += share * (c - score_.constant);
  }
  constant_.add(truth);
  learned_.add(outcome.request, truth);
}

}  // namespace wattle::predict
