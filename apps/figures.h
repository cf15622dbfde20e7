#pragma once
// Figures in tables for people: a share or a time of nothing is "-".
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "journal/summary.h"

namespace wattle::apps {

/// "98.2%" of a share.
inline std::string percent(double share, int decimals = 1) {
  return std::isnan(share) ? "-" : fmt::format("{:.{}f}%", share * 100.0, decimals);
}

/// "37 ms": a figure of that distribution.
inline std::string millis(const journal::Distribution& of, double ms, int decimals = 0) {
  return of.count == 0 ? "-" : fmt::format("{:.{}f} ms", ms, decimals);
}

/// Says what of the workload was changed, if any was.
inline void print_changed(std::int64_t prompts, std::int64_t outputs, std::int64_t left_out, const char* limits) {
  if (prompts + outputs > 0) fmt::print("{} prompts and {} outputs were clamped to {}\n", prompts, outputs, limits);
  if (left_out > 0) fmt::print("{} rows of the trace without an answer (0 tokens) were left out\n", left_out);
}

/// Prints where the simulated hardware was used beyond its measurements.
inline void print_extrapolated(const journal::RunSummary& run) {
  for (const std::string& sentence : run.extrapolated) fmt::print("{}: extrapolated: {}\n", run.recipe, sentence);
}

inline constexpr const char* kWorkloadLimits = "workload.max_prompt_tokens and max_output_tokens";

}  // namespace wattle::apps
