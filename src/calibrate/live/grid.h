#pragma once
// The measurements of `wattle profile`: kinds of load at each clock.
#include <cstdint>
#include <span>
#include <vector>

#include "predict/step_profile.h"
#include "units/quantity.h"

namespace wattle::calibrate {

/// Requests that produce one kind of step.
struct Cell {
  predict::StepKind phase = predict::StepKind::Decode;  ///< Decode or Prefill
  std::int32_t concurrency = 1;                         ///< decode: concurrent streams
  std::int32_t prompt_tokens = 128;                     ///< per request; with a rate: mean
  std::int32_t output_tokens = 1;                       ///< decode: per request
  double rate_per_s = 0.0;          ///< prefill: Poisson arrivals at this rate; 0: one request at a time
  std::int32_t context_tokens = 0;  ///< prefill: before the prompt's, which the engine has in its prefix cache
  bool operator==(const Cell&) const = default;
};

struct Grid {
  std::vector<MegaHertz> clocks;  ///< ascending; empty: the engine's present clock
  std::vector<Cell> cells;        ///< measured at every clock
  bool draws_clocks = false;      ///< instead measure each cell once, with a random clock for each measurement
};

/// All combinations of concurrency, prompt and output length for decodes; for prefill every prompt length, alone and
/// behind each context that is at least kLeastContext times as long.
[[nodiscard]] Grid product_grid(std::span<const std::int32_t> concurrency, std::span<const std::int32_t> prompts,
                                std::span<const std::int32_t> outputs, std::span<const std::int32_t> prefill_prompts,
                                std::span<const std::int32_t> contexts);
inline constexpr std::int32_t kLeastContext = 2;  ///< so that time shows whether the prefix cache had it

/// VoltanaLLM's grid: clocks 1005, 1095, 1200, 1305, 1410; decode batches {8k, 8k+1} to 128 and {128k, 128k+1} to 1024;
/// prefill at 10 to 80 requests/s with one output token. Prompts have ShareGPT's mean length (280 tokens). The paper
/// states no output length for the decode cells: 100 tokens, so that 1,025 requests fit next to an 8B model on 80 GB.
[[nodiscard]] Grid voltanallm_grid();

/// throttLL'eM's grid (section IV-C1): for each batch size that many requests with one prompt token, long enough to
/// fill a cache of `kv_tokens` in their last iteration; clocks are drawn from the given ones or all. Batches that would
/// leave less than kLeastOutput tokens per request are left out.
[[nodiscard]] Grid throttllem_grid(std::span<const std::int32_t> batches, std::int64_t kv_tokens);
/// Engines keep some of the cache free at admission (vLLM: 1 %) and round each request up to a block.
inline constexpr double kFilled = 0.98;
inline constexpr std::int64_t kLeastOutput = 16;

/// Reduces the grid to at most `most` decode and `most` prefill cells, evenly spread, with the first and the last; 0:
/// all.
void thin(Grid& grid, std::size_t most);

}  // namespace wattle::calibrate
