#pragma once
// The simulated truth of one instance's hardware: duration and power of a step as a function of shape and locked clock.
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "engine/extrapolation.h"
#include "engine/options.h"
#include "model/hardware.h"
#include "model/step.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::engine {

/// Step times are fixed point with 20 fractional bits of a nanosecond, so that any number of decode steps is an exact
/// sum.
inline constexpr int kTimeFractionBits = 20;

/// Pure-decode steps of one batch size at one locked clock, while the KV tokens stay in [kv_from, kv_below):
/// duration = base + slope x decode_kv_tokens (fixed-point ns), power and effective clock constant.
struct DecodeLine {
  std::int64_t base = 0;
  std::int64_t slope = 0;
  std::int64_t kv_from = 0;
  std::int64_t kv_below = 0;
  Milliwatts power;           ///< whole instance
  MegaHertz effective_clock;  ///< below the locked clock when TDP clips
};

/// Any other step (with prompt tokens).
struct StepCost {
  std::int64_t duration = 0;  ///< fixed-point ns
  Milliwatts power;
  MegaHertz effective_clock;
};

/// Immutable after construction apart from lazily built per-clock tables (not thread-safe: one per thread).
/// Cost per call < 200 ns once the table entries it needs exist.
class StepModel {
 public:
  /// Errors: weights (plus activations) larger than the instance's memory, heads, layers or
  /// experts that do not divide as `parallel` says.
  [[nodiscard]] static Result<StepModel> make(const GpuSpec& gpu, const LlmSpec& llm, const Parallelism& parallel,
                                              const HardwareProfile& profile, const EngineOptions& options);
  ~StepModel();
  StepModel(StepModel&&) noexcept;
  StepModel& operator=(StepModel&&) noexcept;

  /// The line for this batch size (>= 1), KV tokens and locked clock. Valid until the next call.
  [[nodiscard]] const DecodeLine& decode(std::int32_t requests, std::int64_t kv_tokens, MegaHertz clock) const;
  /// A step with prompt tokens (and possibly decodes).
  [[nodiscard]] StepCost mixed(const StepShape& shape, MegaHertz clock) const;
  /// Power of the whole instance with the model loaded, without work, at this locked clock.
  [[nodiscard]] Milliwatts idle_power(MegaHertz clock) const;
  /// KV blocks that fit after weights and activations.
  [[nodiscard]] std::int64_t kv_blocks() const;
  [[nodiscard]] const GpuSpec& gpu() const;
  [[nodiscard]] const LlmSpec& llm() const;
  [[nodiscard]] std::int32_t gpus() const;  ///< of the instance

  /// The lowest locked clock at which such a GPU was measured; 0: none was.
  [[nodiscard]] MegaHertz measured_from() const;
  /// How far the steps asked for since the last forget_asked() exceed the measured range; for people.
  [[nodiscard]] std::vector<std::string> extrapolated() const;
  void forget_asked() const;
  [[nodiscard]] const AskedRange& asked() const;

 private:
  struct Impl;
  explicit StepModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace wattle::engine
