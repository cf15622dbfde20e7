#pragma once
// One engine iteration: its shape, and its report.
#include <cstdint>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

/// What an iteration computes. All counts are of the whole instance (TP group), not per GPU.
struct StepShape {
  std::int32_t decode_requests = 0;   ///< N_req: one token each, plus drafted ones with speculative decoding
  std::int64_t decode_kv_tokens = 0;  ///< N_kv: context tokens that these read, at the start of the step
  std::int32_t prefill_requests = 0;
  std::int64_t prefill_tokens = 0;          ///< N_tok: prompt tokens computed in this step
  std::int64_t prefill_context_tokens = 0;  ///< sum over chunks of chunk_tokens x (context before it + chunk_tokens/2)

  [[nodiscard]] bool idle() const { return decode_requests == 0 && prefill_tokens == 0; }
  bool operator==(const StepShape&) const = default;
};

/// Which moment of a step a report describes. Unmodified engines (SGLang's and vLLM's forward-pass metrics) report a
/// step when it has ended.
enum class StepMoment : std::int32_t { Starts, Ended };

/// Tokens that the decoding requests of a step got, for engines that may give several (speculative decoding).
struct StepYield {
  std::int32_t requests = 0;  ///< 0: not reported
  std::int64_t tokens = 0;
  bool operator==(const StepYield&) const = default;
};

/// The report of one iteration. Starts: emitted when the iteration starts. Ended: emitted when it has ended; `start` is
/// then the time of its end, at which its successor starts, if there is one, and the queue is what that one finds.
struct StepReport {
  InstanceId instance;
  StepMoment moment = StepMoment::Starts;
  std::int64_t sequence = 0;  ///< counts iterations of this instance; gaps mean lost reports
  Instant start;
  StepShape shape;
  std::int32_t waiting_requests = 0;  ///< queued at the instance, not in this step
  std::int64_t waiting_prompt_tokens = 0;
  std::int64_t unfinished_prompt_tokens = 0;  ///< of this step's prompts, left for steps after it (chunked prefill)
  Instant oldest_scheduled_arrival = Instant::never();  ///< earliest arrival among this step's prefills
  std::int64_t kv_tokens = 0;                           ///< tokens resident in the KV cache
  StepYield yield;                                      ///< of the newest step that had ended
  MegaHertz clock;                                      ///< commanded when the report was made; 0: not reported
};

}  // namespace wattle
