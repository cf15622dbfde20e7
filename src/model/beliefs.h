#pragma once
// Read-only interfaces to beliefs for policies (implemented by predict/, never by engine/).
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "model/load_profile.h"
#include "model/step.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

class LatencyModel {
 public:
  virtual ~LatencyModel() = default;
  /// Predicted duration of a step of this shape at this clock; monotone in decode_kv_tokens. Never throws; for
  /// impossible input the result is meaningless.
  [[nodiscard]] virtual Span step_time(const StepShape& shape, MegaHertz clock) const = 0;
  /// step_time of decodes alone, many at one clock: requests[i] > 0 of them read kv_tokens[i], out[i] is the duration.
  /// Equal lengths. For models that gain from looking a clock up once; fastest if neighbouring requests are similar.
  virtual void decode_times(std::span<const std::int32_t> requests, std::span<const std::int64_t> kv_tokens,
                            MegaHertz clock, std::span<Span> out) const {
    StepShape shape;
    for (std::size_t i = 0; i < out.size(); ++i) {
      shape.decode_requests = requests[i];
      shape.decode_kv_tokens = kv_tokens[i];
      out[i] = step_time(shape, clock);
    }
  }
  /// Largest decode_kv_tokens, at or above the shape's own, up to which step_time stays <= budget with everything else
  /// in the shape fixed; the shape's own if step_time exceeds the budget already. Decisions derive their Hold from it.
  /// The default promises nothing beyond the present.
  [[nodiscard]] virtual std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const {
    (void)clock;
    (void)budget;
    return shape.decode_kv_tokens;
  }
};

class PowerModel {
 public:
  virtual ~PowerModel() = default;
  /// Predicted power of the whole instance while it runs such a step (for an idle shape: while it is idle).
  [[nodiscard]] virtual Milliwatts step_power(const StepShape& shape, MegaHertz clock) const = 0;
};

/// A whole request's time from dispatch to its last token by linear regression: seconds = sum of weights x (1, clock
/// MHz, running requests, KV tokens, prompt tokens, output tokens). Linear in the clock, too.
struct RequestLatency {
  std::array<double, 6> weights{};

  [[nodiscard]] double seconds(MegaHertz clock, double batch, double kv_tokens, double prompt_tokens,
                               double output_tokens) const {
    return weights[0] + weights[1] * clock.value() + weights[2] * batch + weights[3] * kv_tokens +
           weights[4] * prompt_tokens + weights[5] * output_tokens;
  }
};

/// The range of clocks on which something was fitted.
struct MeasuredClocks {
  MegaHertz lowest{0};
  MegaHertz highest = MegaHertz{std::numeric_limits<std::int32_t>::max()};

  [[nodiscard]] constexpr bool covers(MegaHertz clock) const { return clock >= lowest && clock <= highest; }
  constexpr bool operator==(const MeasuredClocks&) const = default;
};

/// Beliefs about an instance. Absent models are null; a policy that needs one reports that when it is made. The models
/// outlive the holders of this.
struct Beliefs {
  const LatencyModel* latency = nullptr;
  const PowerModel* power = nullptr;
  const RequestLatency* request = nullptr;
  const LoadProfile* load = nullptr;
  /// Range of latency and power. Outside it they extrapolate and may make any clock look fast enough, so no policy
  /// chooses a clock outside it by them. By default all clocks.
  MeasuredClocks clocks = {};
};

}  // namespace wattle
