#pragma once
// Whom to believe about output lengths, and when not to.
#include <cstdint>

#include "model/length.h"
#include "model/outcome.h"
#include "predict/length_sketch.h"

namespace wattle::predict {

struct LengthBeliefOptions {
  enum class Source : std::uint8_t {
    Hint,     ///< what the driver wrote into the request (an oracle, a classifier, a client)
    Learned,  ///< quantiles of what was seen before, by tenant and prompt length
  };
  Source source = Source::Hint;
  double quantile = 0.5;  ///< share of requests that are to be no longer than predicted, in (0, 1)
  bool fall_back = true;  ///< to the same quantile of all lengths, while that predicts no worse
};

/// How predictions fared against the constant: mean pinball loss at the quantile, tokens (at 0.5 half the mean absolute
/// error), over about the last thousand answers.
struct LengthScore {
  std::int64_t scored = 0;
  double predictor = 0.0;
  double constant = 0.0;
};

struct LengthCounts {
  std::int64_t predicted = 0;
  std::int64_t absent = 0;       ///< no prediction: nothing learned yet, no hint
  std::int64_t odd = 0;          ///< below 0
  std::int64_t too_long = 0;     ///< above max_tokens: cut
  std::int64_t fallen_back = 0;  ///< answered by the constant
};

/// The predictor of a fleet, in either driver: asked as a request arrives, taught as it finishes. A predictor that is
/// no better than a constant is worse than none, because others reserve room for what it says; so both are scored on
/// every answer, each with what it knew before, and the constant answers while it is at least as good. Deterministic.
class LengthBelief final : public LengthModel {
 public:
  explicit LengthBelief(LengthBeliefOptions options = {});

  struct Answer {
    std::int32_t tokens = 0;         ///< in [1, max_tokens]; 0: none
    const char* fallback = nullptr;  ///< why the constant answered; null: it did not
  };
  Answer answer(const Request& request);
  std::int32_t predict(const Request& request) { return answer(request).tokens; }
  /// Conditional on having produced so many: a hint says nothing beyond itself, so from there on what was seen speaks.
  [[nodiscard]] std::int32_t expected_tokens(const Request& request, std::int32_t produced) const override;
  /// Learns from finished requests. outcome.request holds the hint the driver gave.
  void observe(const Outcome& outcome);

  [[nodiscard]] const LengthScore& score() const { return score_; }
  [[nodiscard]] const LengthCounts& counts() const { return counts_; }
  /// Does the constant answer at present?
  [[nodiscard]] bool falls_back() const;

 private:
  [[nodiscard]] std::int32_t raw(const Request& request) const;

  LengthBeliefOptions options_;
  LengthSketches learned_;
  LengthSketch constant_;
  LengthScore score_;
  LengthCounts counts_;
};

}  // namespace wattle::predict
