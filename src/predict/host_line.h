#pragma once
// Finds what an engine's host takes for a step where it works beside the GPU and is the slower of the two.
#include <span>

#include "predict/linear_latency.h"
#include "predict/step_sample.h"

namespace wattle::predict {

/// How far above its host line a step may lie, relative to it, and still be the host's.
inline constexpr double kHostBand = 0.01;

/// The host of an engine with overlapped scheduling prepares the next step while the GPU works, and the longer counts.
/// What the host decides depends on neither clock nor context: at some batch sizes the shortest third of all samples is
/// then one value. The line through these values, of three batch sizes at least; zeros: there are none, or the line
/// lies above the steps of some batch size. Of steps of decodes alone.
[[nodiscard]] HostLine find_host_line(std::span<const StepSample> samples);
/// Likewise of steps of prompts alone, ns_per_request for each prompt, whatever their lengths. Zeros, too, where the
/// line hardly rises: such steps read the model's weights.
[[nodiscard]] HostLine find_prompt_host_line(std::span<const StepSample> samples);

/// Is this step of one phase no longer than the phase's host line says?
[[nodiscard]] inline bool host_bound(const HostLine& host, const StepSample& s) {
  const double ns = host.ns_per_request * (s.shape.decode_requests + s.shape.prefill_requests) + host.ns;
  return static_cast<double>(s.duration.ns()) <= ns * (1.0 + kHostBand);
}

}  // namespace wattle::predict
