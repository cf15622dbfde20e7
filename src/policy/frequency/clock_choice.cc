#include "policy/frequency/clock_choice.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace wattle::policy {

ClockRule make_clock_rule(std::span<const ClockSetting> clocks, const InstanceSpec& spec, double margin,
                          bool raises_in_vain) {
  const Slo& slo = spec.slo;
  ClockRule rule{
      {}, reserve(slo.ttft, margin), reserve(slo.gap(), margin), reserve(slo.mean_gap(), margin), raises_in_vain};
  for (const ClockSetting& setting : clocks) {
    const MegaHertz clock = setting.on(spec);
    if (rule.clocks.empty() || rule.clocks.back() != clock) rule.clocks.push_back(clock);
  }
  WATTLE_CHECK(!rule.clocks.empty() && std::ranges::is_sorted(rule.clocks), "eco-freq's clocks ascend");
  WATTLE_CHECK(margin >= 0.0 && margin < 1.0, "eco-freq's margin is a share below 1");
  return rule;
}

ClockChoice clock_for(const ClockRule& rule, const StepShape& shape, std::int32_t waiting_requests, Span budget,
                      const LatencyModel* latency, const Present& present) {
  const MegaHertz top = rule.clocks.back();
  if (waiting_requests > 0) return {top, "requests wait: maximum"};
  if (latency == nullptr) return {top, "no latency predictor: maximum", false, false, false};
  const Span at_present =
      present.clock > MegaHertz{0} && present.delay > Span() ? latency->step_time(shape, present.clock) : Span();
  const auto too_late = [&](MegaHertz clock, Span predicted) {
    return clock > present.clock && clock < top && at_present > present.delay &&
           raised_time(at_present, predicted, present.delay) > budget;
  };
  for (const MegaHertz clock : rule.clocks) {
    const Span predicted = latency->step_time(shape, clock);
    if (predicted <= Span() || predicted > kLongestBelievable) {
      return {top, "predictor out of range: maximum", false, false, false};
    }
    if (predicted <= budget && !too_late(clock, predicted)) return {clock, "lowest clock within budget", true, true};
  }
  if (!rule.raises_in_vain) {
    const std::size_t as_fast =
        lowest_as_fast(rule.clocks.size(), [&](std::size_t c) { return latency->step_time(shape, rule.clocks[c]); });
    if (rule.clocks[as_fast] != top) return {rule.clocks[as_fast], "no clock within budget, none faster", true, false};
  }
  return {top, "no clock within budget: maximum", true, false};
}

}  // namespace wattle::policy
