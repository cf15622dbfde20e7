#pragma once
#include <cstdint>
#include <span>

#include "engine/job.h"
#include "model/decision.h"
#include "model/step.h"

namespace wattle::engine {

/// `steps` token gaps of (first + i x increment) / 2^20 ns, each of `requests` requests.
struct TokenGaps {
  std::int64_t first = 0;
  std::int64_t increment = 0;
  std::int64_t steps = 1;
  std::int64_t requests = 0;
  std::int64_t within = 0;  ///< number of the steps x requests gaps within the objective of their request
};

/// Calls of a Replica to its driver. They come in time order; `at` never exceeds the driver's now.
class ReplicaObserver {
 public:
  virtual ~ReplicaObserver() = default;
  /// A step has ended; its successor, if any, has not been composed. Called before step_starts and goes_idle; of a run
  /// of steps only the last is reported.
  virtual void step_ended(const StepReport& report) { (void)report; }
  /// A step is about to run; the answer says how far its successors may be run without asking again.
  virtual Hold step_starts(const StepReport& report) = 0;
  /// There is nothing more to run.
  virtual void goes_idle(InstanceId instance, Instant at) = 0;
  /// From `at` on the instance draws this power, for this many decoding requests and prompt tokens (both 0: idle), at
  /// this effective clock.
  virtual void power_changes(InstanceId instance, Instant at, Milliwatts power, std::int32_t decode_requests,
                             std::int64_t prefill_tokens, MegaHertz clock) = 0;
  virtual void decode_joined(InstanceId instance, Tag tag, Instant at) = 0;
  virtual void decode_left(InstanceId instance, Tag tag, Instant at) = 0;
  /// A step with prompt tokens ended (or was interrupted); its prefill energy belongs to these requests.
  virtual void prefill_settled(InstanceId instance, Instant at, std::span<const PrefillShare> shares) = 0;
  virtual void gaps(const TokenGaps& gaps) = 0;
  /// Live only: one token for this request. Called per token, and only when ReplicaOptions::per_token is set.
  virtual void token(Tag tag, Instant at) {
    (void)tag;
    (void)at;
  }
};

}  // namespace wattle::engine
