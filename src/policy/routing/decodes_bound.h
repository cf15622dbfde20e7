#pragma once
// What a decode instance will run once everything bound to it has arrived, for routers of the decode leg.
#include "model/instance.h"

namespace wattle::policy {

/// Prompt tokens of so many of the requests bound to the instance, at their mean length.
[[nodiscard]] std::int64_t prompt_tokens_of(const InstanceView& view, std::int32_t requests);

/// The reported decodes, and the requests bound to the instance that have not arrived there yet (at the mean prompt
/// length of what is bound to it), so that a burst of finished prefills does not pile up on one instance. Without those
/// that wait there.
[[nodiscard]] StepShape decodes_bound(const InstanceView& view);

/// No step at `clock` keeps the instance's requests, those that wait for KV blocks included, within `limit`, or its KV
/// cache does not hold them. `shape`: what it will decode. An absent or nonsensical prediction says nothing.
[[nodiscard]] bool overfull(const InstanceView& view, StepShape shape, Span limit, MegaHertz clock,
                            const LatencyModel* latency);

}  // namespace wattle::policy
