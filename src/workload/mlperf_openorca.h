#pragma once
// The lengths of MLPerf Inference's Llama-2-70B benchmark, with which throttLL'eM measures what an engine carries.
#include <cstdint>
#include <memory>

#include "workload/lengths.h"

namespace wattle::workload {

/// OpenOrca as MLPerf selects it: 24,576 prompts of at most 1,024 tokens, a quarter from each of four origins (cot,
/// flan, niv, t0), with its reference answers. Kept here are the quantiles of 100 rows read of each; the rest was not
/// at hand. What a model answers itself may be longer (MLPerf's reference model: 294 tokens on average); load
/// generators that replay a data set ask for its answers' lengths. Arrivals are Poisson. Prompt and output are
/// independent here.
struct MlperfOpenOrca {
  static constexpr std::int64_t kRequests = 24'576;
};

[[nodiscard]] std::unique_ptr<LengthSource> mlperf_openorca_lengths(std::uint64_t seed);

}  // namespace wattle::workload
