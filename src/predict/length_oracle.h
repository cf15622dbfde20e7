#pragma once
// Output lengths known in advance, or almost: what papers assume of a length predictor of stated quality.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/random.h"

namespace wattle::predict {

/// Truth x (1 + error), error Gaussian with the given 95th percentile of its absolute value. Fed by a driver that knows
/// the truth; the only way by which truth becomes belief.
class LengthOracle {
 public:
  LengthOracle(double error_p95, std::uint64_t seed)
      : sigma_(error_p95 / kP95OfNormal), random_(seed, "length.oracle") {}

  /// In [1, max_tokens]; one draw per call, whatever the error, so that error levels see the same randomness.
  std::int32_t predict(std::int32_t true_tokens, std::int32_t max_tokens) {
    const double error = sigma_ * random_.normal();
    const double predicted = std::round(static_cast<double>(true_tokens) * (1.0 + error));
    return static_cast<std::int32_t>(std::clamp(predicted, 1.0, static_cast<double>(std::max(max_tokens, 1))));
  }

 private:
  static constexpr double kP95OfNormal = 1.959963984540054;  ///< |N(0, 1)| lies below this 95 % of the time
  double sigma_;
  RandomStream random_;
};

}  // namespace wattle::predict
