#include "policy/routing/decodes_bound.h"

#include <algorithm>

#include "base/wide.h"
#include "policy/frequency/clock_choice.h"

namespace wattle::policy {

std::int64_t prompt_tokens_of(const InstanceView& view, std::int32_t requests) {
  const Int128 theirs = Int128{view.assigned_prompt_tokens} * requests;
  return static_cast<std::int64_t>(theirs / std::max(view.assigned_requests, requests));
}

StepShape decodes_bound(const InstanceView& view) {
  StepShape shape;
  shape.decode_requests = view.step.shape.decode_requests;
  shape.decode_kv_tokens = view.step.shape.decode_kv_tokens;
  const std::int64_t under_way =
      std::int64_t{view.assigned_requests} - view.step.waiting_requests - view.step.shape.decode_requests;
  if (under_way > 0) {
    shape.decode_requests += static_cast<std::int32_t>(under_way);
    shape.decode_kv_tokens += prompt_tokens_of(view, static_cast<std::int32_t>(under_way));
  }
  return shape;
}

bool overfull(const InstanceView& view, StepShape shape, Span limit, MegaHertz clock, const LatencyModel* latency) {
  const std::int32_t waiting = view.step.waiting_requests;
  if (waiting > 0) {
    shape.decode_requests += waiting;
    shape.decode_kv_tokens += prompt_tokens_of(view, waiting);
  }
  const std::int64_t capacity = view.spec->kv_capacity_tokens;
  if (capacity > 0 && shape.decode_kv_tokens > capacity) return true;
  if (latency == nullptr) return false;
  const Span predicted = latency->step_time(shape, clock);
  return predicted > limit && predicted <= kLongestBelievable;
}

}  // namespace wattle::policy
