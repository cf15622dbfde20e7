#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "model/prompt_blocks.h"
#include "units/time.h"

namespace wattle::workload {

/// Counts: how many requests came in each bin (counts.h); their lengths come from `lengths`, those of `service`.
enum class TraceFormat : std::uint8_t { Azure, Vidur, Splitwise, Mooncake, BurstGpt, Counts };

/// What prompts have in common where the trace does not say it (shared_prefixes.h).
struct PrefixOptions {
  double share = 0.0;          ///< of the prompts that begin no conversation's next turn: begin with a system prompt
  std::int64_t prefixes = 8;   ///< system prompts, one as likely as another
  std::int32_t tokens = 512;   ///< of each; counted in whole blocks of 16
  double session_share = 0.0;  ///< of the requests: go on with an earlier one's conversation
  std::int64_t sessions = 64;  ///< conversations that may go on
  [[nodiscard]] bool any() const { return share > 0.0 || session_share > 0.0; }
};

/// Where requests come from: a trace file, or (empty path) a synthetic process.
struct WorkloadOptions {
  std::string trace;                  ///< path; relative ones are looked up in WATTLE_DATA, then beside the scenario
  std::optional<TraceFormat> format;  ///< none: by its first line
  double rate_scale = 1.0;            ///< 2 = the same arrivals in half the time
  /// Highest arrival rate of any whole window of rate_window, reached by sending the requests faster or slower (after
  /// rate_scale); 0 = as it comes.
  double peak_rate_per_s = 0.0;
  /// With a peak: lowest arrival rate of any window. Requests are left out evenly within each window, the more the
  /// calmer it is, so that the rate keeps its shape but swings between the two; 0 = as it comes.
  double trough_rate_per_s = 0.0;
  Span rate_window = Span::s(60);
  /// Every request comes so often on average (copies.h), each copy up to copies_spread later: a service so many times
  /// as busy in the same time. After the slice and the clamps.
  double copies = 1.0;
  Span copies_spread = Span::s(60);
  Span start;  ///< slice, in the trace's own time (before scaling)
  Span duration = Span::max();
  std::int32_t max_prompt_tokens = 8192;  ///< longer prompts are clamped, and counted
  std::int32_t max_output_tokens = 4096;
  PrefixOptions prefix;

  // Synthetic arrivals (trace empty).
  /// "" = the process below; "azure-conv" = a stand-in for the Azure 2023 conversation trace with its rate, burstiness
  /// and lengths (azure_like.h), which uses none of the fields below; "mlperf-openorca" = MLPerf's lengths
  /// (mlperf_openorca.h) at rate_per_s and arrival_cv.
  std::string synthetic;
  double rate_per_s = 1.0;
  double arrival_cv = 1.0;  ///< 1 = Poisson; else Gamma inter-arrivals with this coefficient of variation
  std::int64_t requests = 1000;
  std::string lengths;  ///< CSV of (prompt, output) pairs to draw from; empty = lognormal. Counts: histograms
  std::string service;  ///< of the histograms
  double prompt_mean = 1000.0, prompt_std = 1000.0;
  double output_mean = 200.0, output_std = 200.0;
};

/// One request as it really is. `output_tokens` is truth: only engine/ and the drivers see it.
struct TraceRow {
  Instant arrival;
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 0;
  PromptContent content = nullptr;  ///< null: not known
};

}  // namespace wattle::workload
