#pragma once
// Which drafted tokens are accepted. Internal to engine/.
#include <cstdint>

#include "engine/options.h"
#include "model/prompt_blocks.h"
#include "units/quantity.h"

namespace wattle::engine {

/// Number of accepted drafts of one step of a request with `left` output tokens to go: the same whatever happened
/// before, and whichever engine and recipe serves it.
[[nodiscard]] inline std::int32_t accepted_drafts(const EngineOptions& options, RequestId request, std::int32_t left) {
  const std::uint64_t drawn =
      hash_of(hash_of(1, static_cast<std::uint64_t>(request.value())), static_cast<std::uint64_t>(left));
  const double u = static_cast<double>(drawn >> 11U) * 0x1p-53;
  std::int32_t accepted = 0;
  for (double at_least = options.acceptance_rate; accepted < options.speculative_tokens && u < at_least;
       at_least *= options.acceptance_rate) {
    ++accepted;
  }
  return accepted;
}

/// Mean tokens that a step yields to a request, except its last step (Leviathan et al. 2023, equation 1).
[[nodiscard]] inline double tokens_per_step(const EngineOptions& options) {
  double tokens = 1.0;
  double at_least = 1.0;
  for (std::int32_t k = 0; k < options.speculative_tokens; ++k) tokens += at_least *= options.acceptance_rate;
  return tokens;
}

}  // namespace wattle::engine
