#pragma once
// What a decode instance will run once all requests bound to it have arrived, for routing to decode instances.
#include "model/instance.h"

namespace wattle::policy {

/// Prompt tokens of `requests` of the requests bound to the instance, at their mean length.
[[nodiscard]] std::int64_t prompt_tokens_of(const InstanceView& view, std::int32_t requests);

/// The reported decodes plus the requests bound to the instance that have not arrived yet (at the mean prompt length of
/// its requests), so that a burst of finished prefills does not go to one instance. Without requests that wait there.
[[nodiscard]] StepShape decodes_bound(const InstanceView& view);

/// True if no step at `clock` with the instance's requests, including those waiting for KV blocks, takes at most
/// `limit`, or if its KV cache cannot hold them. `shape`: what it will decode. False if the prediction is absent or
/// implausible.
[[nodiscard]] bool overfull(const InstanceView& view, StepShape shape, Span limit, MegaHertz clock,
                            const LatencyModel* latency);

}  // namespace wattle::policy
