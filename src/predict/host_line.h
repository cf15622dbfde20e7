#pragma once
// Detects the host CPU time of steps in which the host, working in parallel with the GPU, is the slower of the two.
#include <span>

#include "predict/linear_latency.h"
#include "predict/step_sample.h"

namespace wattle::predict {

/// Relative distance above the host line within which a step counts as bound by the host.
inline constexpr double kHostBand = 0.01;

/// With overlapped scheduling, the host prepares the next step while the GPU works, and the longer of the two counts.
/// Host time depends on neither clock nor context: at some batch sizes the shortest third of all samples then has one
/// value. Returns the line through these values, for at least three batch sizes; zeros if there are none, or if the
/// line exceeds the steps of some batch size. For steps with decodes only.
[[nodiscard]] HostLine find_host_line(std::span<const StepSample> samples);
/// The same for steps with prompts only, with ns_per_request per prompt of any length. Also zeros if the line hardly
/// rises: such steps are bound by reading the weights.
[[nodiscard]] HostLine find_prompt_host_line(std::span<const StepSample> samples);

/// True if this step of one phase is not longer than the phase's host line.
[[nodiscard]] inline bool host_bound(const HostLine& host, const StepSample& s) {
  const double ns = host.ns_per_request * (s.shape.decode_requests + s.shape.prefill_requests) + host.ns;
  return static_cast<double>(s.duration.ns()) <= ns * (1.0 + kHostBand);
}

}  // namespace wattle::predict
