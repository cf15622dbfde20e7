#pragma once
// Whether the hardware model was asked for something that no measurement behind its profile covers.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/hardware_profile.h"
#include "model/hardware.h"

namespace wattle::engine {

/// Extremes of the steps for which a model was asked; zeros: none.
struct AskedRange {
  std::int64_t requests = 0;        ///< decode batch
  std::int64_t context_tokens = 0;  ///< KV tokens per decoding request, the batch's mean
  std::int64_t step_tokens = 0;     ///< prompt tokens of one step
  std::int32_t clock_low_mhz = 0;
  std::int32_t clock_high_mhz = 0;

  void take(std::int64_t decode_requests, std::int64_t kv_tokens, std::int64_t prefill_tokens, std::int32_t clock_mhz) {
    if (decode_requests > requests) requests = decode_requests;
    if (kv_tokens > context_tokens * decode_requests && decode_requests > 0) {
      context_tokens = kv_tokens / decode_requests + 1;
    }
    if (prefill_tokens > step_tokens) step_tokens = prefill_tokens;
    if (clock_low_mhz == 0 || clock_mhz < clock_low_mhz) clock_low_mhz = clock_mhz;
    if (clock_mhz > clock_high_mhz) clock_high_mhz = clock_mhz;
  }
};

/// One sentence per quantity outside the profile's measured range; empty: all within it.
[[nodiscard]] std::vector<std::string> extrapolations(const HardwareProfile& profile, std::int32_t tensor_parallel,
                                                      const AskedRange& asked);

/// One sentence per property of the model or its distribution over GPUs that no measured row of this GPU has. Covers:
/// latent attention, windows, 4-bit weights, 8-bit weights on GPUs without units for them, pipeline, expert and data
/// parallelism, uneven routing.
[[nodiscard]] std::vector<std::string> unmeasured(const GpuSpec& gpu, const LlmSpec& llm, const Parallelism& parallel);

}  // namespace wattle::engine
