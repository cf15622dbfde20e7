#pragma once
// Which clocks sustain the load of a decode instance. Ours: docs/decisions/0043.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/beliefs.h"
#include "model/instance.h"

namespace wattle::policy {

/// Slow steps cost a decode instance nothing at first. But answers finish later while requests arrive as before, so the
/// batch grows until no clock meets ITL, the KV cache is full or the engine admits no more. Raising the clock then
/// comes too late: it takes about the duration of an answer until the batch shrinks.
///
/// By Little's law a batch of n requests with steps of T produces n / T tokens/s, and is stable if that equals the
/// demand: arrivals per second times tokens per answer. A clock carries the load if it meets the demand with
/// the largest batch that the highest clock steps within ITL, the KV cache holds and the engine admits; at lower
/// clocks the batch outgrows that. An instance that a router fills up to a fixed batch receives less when it runs
/// slower, and its clock may come down step by step.
///
/// Both rates are from the last one to two minutes. Tokens per answer are all tokens given, also to requests still
/// running, divided by finished answers plus one: while few have finished, answers are assumed to be long. Arrivals and
/// ends are inferred from changes of the batch: if both happen in one step neither counts, which leaves their ratio
/// unchanged while the batch is stable.
class DecodeLoad {
 public:
  /// `clocks` ascending, at least one. `spec` has a belief of latency.
  DecodeLoad(std::span<const MegaHertz> clocks, const InstanceSpec& spec);

  /// A step of this shape and with this limit begins at `now`, with `waiting` more requests at the instance; steps like
  /// it run until the next call. An idle shape means no work. Does not allocate.
  void note(const StepShape& shape, std::int32_t waiting, Span limit, Instant now);
  /// Their clock, after note(); one that is not among `clocks` counts as the next higher one.
  void runs_at(MegaHertz clock);
  /// The lowest clock that carries the load; if none does, the lowest that runs the largest batch as fast as the
  /// highest does.
  [[nodiscard]] MegaHertz least() const { return clocks_[least_]; }

 private:
  /// Counts over about a minute.
  struct Seen {
    Span lasted;
    double came = 0.0;   ///< requests that arrived
    double ended = 0.0;  ///< requests that finished
    double steps = 0.0;  ///< summed over requests
  };
  [[nodiscard]] double seconds(const StepShape& shape, std::size_t clock) const;
  /// The largest batch of requests like these that the highest clock steps within `limit`; at least one.
  [[nodiscard]] StepShape largest(const StepShape& like, Span limit) const;
  void weigh(Span limit, Instant now);

  std::vector<MegaHertz> clocks_;
  const LatencyModel* latency_;
  std::int64_t kv_capacity_tokens_;
  std::int32_t max_requests_;

  // The steps that run now.
  StepShape shape_;
  std::int32_t requests_ = 0;  ///< waiting ones included
  Instant since_;
  std::size_t clock_;

  Seen recent_;
  Seen older_;
  Instant recent_since_ = Instant::never();
  Instant weighed_at_ = Instant::never();
  std::size_t least_ = 0;
};

}  // namespace wattle::policy
