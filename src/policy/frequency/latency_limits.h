#pragma once
// Which latencies FREESH calls congestion (Table 7, appendix D.2): what MIAD reacts to, and what the primal-dual
// controller keeps as the least rates of its flows.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/instance.h"
#include "policy/frequency/clock_choice.h"

namespace wattle::policy {

struct LatencyLimitOptions {
  Span tbt = Span::ms(150);         ///< a longer gap between tokens is congestion
  Span ttft_short = Span::ms(300);  ///< likewise to the first token of a prompt up to short_prompt tokens
  Span ttft_long = Span::ms(600);   ///< of a longer one
  std::int32_t short_prompt = 184;  ///< tokens (the paper's partition 1)
  /// By pool, milliseconds: a longer gap in the mean of a period is congestion. What a limit on whole requests leaves
  /// each token of a mean answer: steps do not say which request they end.
  std::vector<std::int32_t> mean_gap_ms = {};
  double margin = 0.0;  ///< share of each limit, and of each objective that counts, kept in reserve, in [0, 1)
  /// The objectives of what it serves are limits of a colocated instance, too, as they always are of a P/D half.
  bool objectives = false;
};

/// What is not congestion at an instance, after the margin; max(): anything.
struct LatencyLimits {
  Span gap = Span::max();
  Span mean_gap = Span::max();
  Span ttft_short = Span::max();
  Span ttft_long = Span::max();

  /// `slo`: what it is held to.
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
