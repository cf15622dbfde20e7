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
inline void print_clamped(std::int64_t prompts, std::int64_t outputs, const char* limits) {
  if (prompts + outputs > 0) fmt::print("{} prompts and {} outputs were clamped to {}\n", prompts, outputs, limits);
}

/// Prints where the simulated hardware was used beyond its measurements.
inline void print_extrapolated(const journal::RunSummary& run) {
  for (const std::string& sentence : run.extrapolated) fmt::print("{}: extrapolated: {}\n", run.recipe, sentence);
}

inline constexpr const char* kWorkloadLimits = "workload.max_prompt_tokens and max_output_tokens";

}  // namespace wattle::apps
