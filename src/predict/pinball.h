#pragma once

namespace wattle::predict {

/// Pinball loss of one quantile that was said: level x over, (1 - level) x under.
[[nodiscard]] inline double pinball(double truth, double said, double level) {
  return truth >= said ? level * (truth - said) : (1.0 - level) * (said - truth);
}

}  // namespace wattle::predict
