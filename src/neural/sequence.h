#pragma once
// Recurrent forecasters by libtorch: an LSTM for traffic, a GRU per site with a graph convolution across sites for
// emissions (FREESH, section IV; the authors published neither). Both say how far the next steps will be off a base,
// the last value or the season before, whichever did better on the past: untrained, one is a naive forecaster.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "predict/forecast/forecaster.h"

namespace wattle::neural {

struct SequenceOptions {
  enum class Encoder : std::uint8_t {
    Lstm,      ///< one network for all series, each on its own
    GruGraph,  ///< and what it makes of each is shared with those that move alike
  };
  Encoder encoder = Encoder::Lstm;
  std::size_t horizon = 6;  ///< at most `period`, where there is one
  std::size_t window = 48;  ///< steps read
  std::size_t period = 0;   ///< of a season; 0: none, the base is the last value
  std::size_t hidden = 32;
  std::size_t batch = 32;  ///< origins a training step looks at
  std::size_t updates = 1000;
  double learning_rate = 3e-3;
  std::uint64_t seed = 1;
};

class SequenceForecaster : public predict::Forecaster {
 public:
  /// Everything learned, for load(). Errors: nothing learned yet.
  [[nodiscard]] virtual Result<std::string> save() const = 0;
  /// Errors: not a saved network, or one of other sizes.
  virtual Result<void> load(std::string_view bytes) = 0;
};

/// Training minimises the absolute error by Adam with early stopping on the last tenth of the past, on one thread:
/// equal pasts give equal forecasts on one machine. Errors of fit(): a past too short. Not for use by two threads at
/// once.
[[nodiscard]] std::unique_ptr<SequenceForecaster> make_sequence(const SequenceOptions& options);

}  // namespace wattle::neural
