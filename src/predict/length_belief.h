#pragma once
// Predictions of output lengths, and when to replace them by a constant.
#include <cstdint>

#include "model/length.h"
#include "model/outcome.h"
#include "predict/length_sketch.h"

namespace wattle::predict {

struct LengthBeliefOptions {
  enum class Source : std::uint8_t {
    Hint,     ///< written into the request by the driver (an oracle, a classifier, the client)
    Learned,  ///< quantiles of previous lengths, by tenant and prompt length
  };
  Source source = Source::Hint;
  double quantile = 0.5;  ///< share of requests that should be no longer than predicted, in (0, 1)
  bool fall_back = true;  ///< use the same quantile of all lengths while it predicts no worse
};

/// Accuracy of predictions and of the constant: mean pinball loss at the quantile, in tokens (at 0.5: half the mean
/// absolute error), over about the last thousand answers.
struct LengthScore {
  std::int64_t scored = 0;
  double predictor = 0.0;
  double constant = 0.0;
};

struct LengthCounts {
  std::int64_t predicted = 0;
  std::int64_t absent = 0;       ///< no prediction: nothing learned yet, or no hint
  std::int64_t odd = 0;          ///< below 0
  std::int64_t too_long = 0;     ///< above max_tokens: clamped
  std::int64_t fallen_back = 0;  ///< the constant was used
};

/// The length predictor of a fleet, in both drivers: predicts when a request arrives and learns when it finishes. A
/// predictor no better than a constant is harmful, because other policies reserve capacity by it. So both are scored on
/// every answer, each with what it knew before, and the constant is used while it is at least as good. Deterministic.
class LengthBelief final : public LengthModel {
 public:
  explicit LengthBelief(LengthBeliefOptions options = {});

  struct Answer {
    std::int32_t tokens = 0;         ///< in [1, max_tokens]; 0: no prediction
    const char* fallback = nullptr;  ///< why the constant was used; null: it was not
  };
  Answer answer(const Request& request);
  std::int32_t predict(const Request& request) { return answer(request).tokens; }
  /// Given that `produced` tokens exist: beyond a hint's length, previous lengths are used.
  [[nodiscard]] std::int32_t expected_tokens(const Request& request, std::int32_t produced) const override;
  /// Learns from finished requests. outcome.request holds the hint the driver gave.
  void observe(const Outcome& outcome);

  [[nodiscard]] const LengthScore& score() const { return score_; }
  [[nodiscard]] const LengthCounts& counts() const { return counts_; }
  /// True while the constant is used.
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
