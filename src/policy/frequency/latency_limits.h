#pragma once
// The latency limits of FREESH (Table 7, appendix D.2). MIAD reacts when they are exceeded; the primal-dual controller
// turns them into the lowest rates of its flows.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/instance.h"
#include "policy/frequency/clock_choice.h"

namespace wattle::policy {

struct LatencyLimitOptions {
  Span tbt = Span::ms(150);         ///< limit on a gap between two tokens
  Span ttft_short = Span::ms(300);  ///< limit on the TTFT of prompts with up to short_prompt tokens
  Span ttft_long = Span::ms(600);   ///< limit on the TTFT of longer prompts
  std::int32_t short_prompt = 184;  ///< tokens (the paper's partition 1)
  /// By pool number, in milliseconds: limit on the mean token gap of a period. Used for limits on whole requests,
  /// divided by the mean number of tokens, because step reports do not say which requests end.
  std::vector<std::int32_t> mean_gap_ms = {};
  double margin = 0.0;  ///< share of each limit and objective kept in reserve, in [0, 1)
  /// The instance's objectives are limits, too, also if it is colocated. For prefill and decode instances they always
  /// are.
  bool objectives = false;
};

/// The limits in force at an instance, after the margin; max(): no limit.
struct LatencyLimits {
  Span gap = Span::max();
  Span mean_gap = Span::max();
  Span ttft_short = Span::max();
  Span ttft_long = Span::max();

  /// `slo`: the objectives in force.
  [[nodiscard]] static LatencyLimits of(const LatencyLimitOptions& options, const InstanceSpec& spec, const Slo& slo) {
    const bool counts = options.objectives || spec.role != Role::Colocated;
    const auto limit = [&](Span stated, const std::optional<Span>& objective) {
      return reserve(counts && objective ? std::min(stated, *objective) : stated, options.margin);
    };
    const auto pool = static_cast<std::size_t>(spec.pool.value());
    const bool listed = pool < options.mean_gap_ms.size();
    return {limit(options.tbt, slo.itl),
            limit(listed ? Span::ms(options.mean_gap_ms[pool]) : Span::max(), slo.mean_gap()),
            limit(options.ttft_short, slo.ttft), limit(options.ttft_long, slo.ttft)};
  }
};

}  // namespace wattle::policy
