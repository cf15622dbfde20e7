#pragma once
// Which clocks sustain the load of a decode instance. Ours: docs/decisions/0043.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/beliefs.h"
#include "model/instance.h"
#include "policy/frequency/recent_minutes.h"

namespace wattle::policy {

/// Slow steps cost a decode instance nothing at first. But answers finish later while requests arrive as before, so the
/// batch grows until no clock meets ITL, the KV cache is full or the engine admits no more. Raising the clock then
/// comes too late: it takes about the duration of an answer until the batch shrinks.
///
/// By Little's law a batch of n requests with steps of T produces n / T tokens/s, and is stable if that equals the
/// demand: arrivals per second times tokens per answer. A clock carries the load if it meets the demand with the
/// largest batch that the highest clock steps within ITL, the KV cache holds and the engine admits: at lower clocks the
/// batch outgrows that. Arrivals fluctuate, the batch with them, and the more the less the clock leaves it; so the
/// share of time for which the batch would be larger than that must not exceed the highest clock's by more than `late`.
/// How much it fluctuates is measured: an instance that a router fills up to a fixed batch has a steady one, and since
/// it receives less when it runs slower, its clock may come down step by step.
///
/// All of this is from the last one to two minutes. Tokens per answer are all tokens given, also to requests still
/// running, divided by finished answers plus one: while few have finished, answers are assumed to be long.
/// Arrivals and ends are inferred from changes of the batch: if both happen in one step neither counts, which leaves
/// their ratio unchanged while the batch is stable.
class DecodeLoad {
 public:
  /// `clocks` ascending, at least one. `late` in [0, 1). `spec` has a belief of latency.
  DecodeLoad(std::span<const MegaHertz> clocks, double late, const InstanceSpec& spec);

  /// A step of this shape and with this limit begins at `now`, with `waiting` more requests at the instance; steps like
  /// it run until the next call. An idle shape means no work. Does not allocate.
  void note(const StepShape& shape, std::int32_t waiting, Span limit, Instant now);
  /// Their clock, after note(); one that is not among `clocks` counts as the next higher one.
  void runs_at(MegaHertz clock);
  /// The lowest clock that carries the load; if none does, the lowest that runs the largest batch as fast as the
  /// highest does.
  [[nodiscard]] MegaHertz least() const { return clocks_[least_]; }

 private:
  struct Counts {
    double joined = 0.0;   ///< requests
    double left = 0.0;     ///< requests
    double steps = 0.0;    ///< summed over requests
    double changes = 0.0;  ///< squares of the batch's changes within a second, summed
    double seconds = 0.0;  ///< number of these
  };
  [[nodiscard]] double seconds(const StepShape& shape, std::size_t clock) const;
  /// The largest batch of requests like these that the highest clock steps within `limit`; at least one.
  [[nodiscard]] StepShape largest(const StepShape& like, Span limit) const;
  void count(std::int32_t requests, Instant now);
  void weigh(Span limit, Instant now);
  /// Share of time for which the batch is larger than the largest if all steps run at this clock.
  [[nodiscard]] double beyond(std::size_t clock) const;

  std::vector<MegaHertz> clocks_;
  const LatencyModel* latency_;
  std::int64_t kv_capacity_tokens_;
  std::int32_t max_requests_;
  double late_;

  // The steps that run now.
  StepShape shape_;
  std::int32_t requests_ = 0;  ///< waiting ones included
  Instant since_;
  std::size_t clock_;

  RecentMinutes<Counts> counts_;
  Instant weighed_at_ = Instant::never();
  Instant sampled_at_ = Instant::never();
  std::int32_t sampled_ = 0;  ///< requests then

  // The newest weigh().
  double demand_ = 0.0;    ///< tokens/s
  double answer_ = 1.0;    ///< tokens
  double variance_ = 0.0;  ///< of the batch's changes, requests squared per second
  std::int32_t stride_ = 1;
  std::vector<double> seconds_;  ///< step times, by batch (1 to kStrides strides), then by clock
  std::size_t least_ = 0;
};

}  // namespace wattle::policy
