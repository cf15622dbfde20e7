#pragma once
// What `wattle profile` visits: kinds of load, at each clock.
#include <cstdint>
#include <span>
#include <vector>

#include "predict/step_profile.h"
#include "units/quantity.h"

namespace wattle::calibrate {

/// Requests that make one kind of step.
struct Cell {
  predict::StepKind phase = predict::StepKind::Decode;  ///< Decode or Prefill
  std::int32_t concurrency = 1;                         ///< decode: streams at once
  std::int32_t prompt_tokens = 128;                     ///< of each request; with a rate: their mean
  std::int32_t output_tokens = 1;                       ///< decode: of each request
  double rate_per_s = 0.0;  ///< prefill: Poisson arrivals at this rate; 0: one request after the other
  bool operator==(const Cell&) const = default;
};

struct Grid {
  std::vector<MegaHertz> clocks;  ///< ascending; empty: whatever the engine runs at
  std::vector<Cell> cells;        ///< visited at every clock
  bool draws_clocks = false;      ///< each cell is visited once instead, at a clock drawn for each measurement
};

/// Every combination of concurrency, prompt and output length as decodes, and every prompt length as prefill.
[[nodiscard]] Grid product_grid(std::span<const std::int32_t> concurrency, std::span<const std::int32_t> prompts,
                                std::span<const std::int32_t> outputs, std::span<const std::int32_t> prefill_prompts);

/// VoltanaLLM's: clocks 1005, 1095, 1200, 1305, 1410; decode batches {8k, 8k+1} to 128 and {128k, 128k+1} to 1024;
/// prefill at 10 to 80 requests/s with one output token. Prompts are ShareGPT's mean (280 tokens); the paper gives no
/// output length for the decode cells: 100 tokens, so that 1,025 of them fit beside an 8B model on 80 GB.
[[nodiscard]] Grid voltanallm_grid();

/// throttLL'eM's (section IV-C1): for each batch size so many requests of one prompt token, as long as fill a cache of
/// `kv_tokens` in their last iteration; clocks are drawn among all there are, or those given. A batch that would not
/// leave each request kLeastOutput tokens is left out.
[[nodiscard]] Grid throttllem_grid(std::span<const std::int32_t> batches, std::int64_t kv_tokens);
/// An engine keeps some of its cache free when it admits (vLLM: 1 %), and rounds each request up to a block.
inline constexpr double kFilled = 0.98;
inline constexpr std::int64_t kLeastOutput = 16;

/// At most `most` decode and `most` prefill cells, spread evenly, first and last kept; 0: all.
void thin(Grid& grid, std::size_t most);

}  // namespace wattle::calibrate
