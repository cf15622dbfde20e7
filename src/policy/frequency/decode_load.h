#pragma once
// Which clocks carry the load of a decode instance. Ours: docs/decisions/0043.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/beliefs.h"
#include "model/instance.h"

namespace wattle::policy {

/// A slow step costs a decode instance nothing at once. But its answers end later while requests come as before, so
/// that its batch grows until no clock steps it within the objective, the KV cache is full or the engine takes no more.
/// A higher clock is then too late: it takes about as long as an answer to make the batch smaller.
///
/// By Little's law a batch of n requests whose steps take T gives n / T tokens a second, and is stable where that is
/// what requests ask for: those that come in a second times the tokens of an answer. So a clock carries the load if,
/// with the largest batch that the highest clock steps in time and the KV cache holds, it gives as much: at a lower one
/// the batch outgrows that. An instance that a router fills up to some batch and no further gets less the slower it
/// runs, and may come down clock by clock.
///
/// Both are of the last one to two minutes. An answer has as many tokens as all requests were given, those that still
/// run included, by answers that have ended, one besides: while few have, they are taken to be long. What comes and
/// ends is seen by the batch alone: where both happen in one step neither counts, which leaves their ratio as it is as
/// long as the batch does.
class DecodeLoad {
 public:
  /// `clocks` ascending, at least one. `spec` believes in a time.
  DecodeLoad(std::span<const MegaHertz> clocks, const InstanceSpec& spec);

  /// A step of this shape, which may take `limit`, begins at `now`, and `waiting` more requests are at the instance;
  /// steps like it run until the next call. No work: an idle shape. No allocation.
  void note(const StepShape& shape, std::int32_t waiting, Span limit, Instant now);
  /// What they run at, after note(); a clock that is none of them counts as the next higher.
  void runs_at(MegaHertz clock);
  /// The lowest clock that carries the load; where none does, the lowest that steps the largest batch as fast as the
  /// highest.
  [[nodiscard]] MegaHertz least() const { return clocks_[least_]; }

 private:
  /// Of about a minute.
  struct Seen {
    Span lasted;
    double came = 0.0;  ///< requests
    double ended = 0.0;
    double steps = 0.0;  ///< of all requests together
  };
  [[nodiscard]] double seconds(const StepShape& shape, std::size_t clock) const;
  /// The largest batch of requests like these that the highest clock steps within `limit`; at least one.
  [[nodiscard]] StepShape largest(const StepShape& like, Span limit) const;
  void weigh(Span limit, Instant now);

  std::vector<MegaHertz> clocks_;
  const LatencyModel* latency_;
  std::int64_t kv_capacity_tokens_;

  // The steps that run now.
  StepShape shape_;
  std::int32_t requests_ = 0;  ///< with those that wait
  Instant since_;
  std::size_t clock_;

  Seen recent_;
  Seen older_;
  Instant recent_since_ = Instant::never();
  Instant weighed_at_ = Instant::never();
  std::size_t least_ = 0;
};

}  // namespace wattle::policy
