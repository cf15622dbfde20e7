#pragma once
// Simulated length predictors with a stated accuracy, called by a driver that knows the true length: the only path from
// truth to belief.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/random.h"

namespace wattle::predict {

class LengthHint {
 public:
  virtual ~LengthHint() = default;
  /// In [1, max_tokens]; one random draw per call.
  virtual std::int32_t predict(std::int32_t true_tokens, std::int32_t max_tokens) = 0;
};

/// Truth x (1 + error), error Gaussian with the given 95th percentile of its absolute value (throttLL'eM, section V-D).
class LengthOracle final : public LengthHint {
 public:
  LengthOracle(double error_p95, std::uint64_t seed)
      : sigma_(error_p95 / kP95OfNormal), random_(seed, "length.oracle") {}

  /// One draw for any error, so that error levels see the same randomness.
  std::int32_t predict(std::int32_t true_tokens, std::int32_t max_tokens) override {
    const double error = sigma_ * random_.normal();
    const double predicted = std::round(static_cast<double>(true_tokens) * (1.0 + error));
    return static_cast<std::int32_t>(std::clamp(predicted, 1.0, static_cast<double>(std::max(max_tokens, 1))));
  }

 private:
  static constexpr double kP95OfNormal = 1.959963984540054;  ///< |N(0, 1)| lies below this 95 % of the time
  double sigma_;
  RandomStream random_;
};

/// A classifier into five classes of length with the measured errors of the BERT proxy model
/// (LLM-serving-with-proxy-models, commit 4b86686: 85,482 LMSYS prompts answered by vicuna-13b, right in 60 %). Returns
/// the `quantile` (0.5 or 0.9) of the lengths for which the class was predicted there.
class LengthClasses final : public LengthHint {
 public:
  static constexpr int kClasses = 5;

  LengthClasses(double quantile, std::uint64_t seed) : high_(quantile > 0.5), random_(seed, "length.classes") {}

  std::int32_t predict(std::int32_t true_tokens, std::int32_t max_tokens) override;

  /// 0: the shortest.
  [[nodiscard]] static int class_of(std::int32_t tokens);
  /// Measured share, in 1/1000, of requests of class `truth` for which `predicted` was predicted.
  [[nodiscard]] static int per_mille(int truth, int predicted);

 private:
  bool high_;
  RandomStream random_;
};

}  // namespace wattle::predict
