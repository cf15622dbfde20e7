#include "policy/retail/retail.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace wattle::policy {

Retail::Retail(const RetailOptions& options, RetailClockOptions clock) : options_(options), clock_(std::move(clock)) {
  WATTLE_CHECK(options_.margin >= 0.0 && options_.margin < 1.0, "ReTail's margin is a share below 1");
}

void Retail::observe(const Event& event, Instant now) {
  if (const auto* joined = std::get_if<event::Joined>(&event)) {
    this->joined(joined->instance);
  } else if (const auto* gone = std::get_if<event::Gone>(&event)) {
    instances_.erase(gone->instance.id);
  } else if (const auto* started = std::get_if<event::Started>(&event)) {
    this->started(started->request, started->instance, now);
  } else if (const auto* left = std::get_if<event::Left>(&event)) {
    for (auto& [id, instance] : instances_) {
      if (instance.queue.erase(left->outcome.request.id.value()) > 0) return;
    }
  }
}

void Retail::joined(const InstanceView& view) {
  const InstanceSpec& spec = *view.spec;
  if (spec.beliefs.request == nullptr || !spec.slo.e2e) return;
  Instance made{&spec, {}, spec.slo.e2e->seconds() * (1.0 - options_.margin), {}, 0, -1, {}};
  made.clocks = clocks_to_choose(clock_.clocks, clock_.lowest_clock, spec);
  WATTLE_CHECK(!made.clocks.empty() && std::ranges::is_sorted(made.clocks), "ReTail's clocks ascend");
  made.current = {made.clocks.back(), "no request yet: maximum", Hold::forever()};
  instances_.insert_or_assign(view.id, std::move(made));
}

void Retail::started(const Request& request, const InstanceView& view, Instant now) {
  const auto found = instances_.find(view.id);
  if (found == instances_.end()) return;
  const auto cap = static_cast<double>(std::max(request.max_tokens, 1));
  const double wanted = std::ceil(request.predicted_output_tokens * (1.0 + options_.inflation));
  const double tokens = request.predicted_output_tokens > 0 ? std::min(wanted, cap) : cap;
  found->second.queue[request.id.value()] = {request.arrival, now, std::max(request.prompt_tokens, 0),
                                             static_cast<std::int32_t>(tokens)};
  ++found->second.arrivals;
}

ClockDecision Retail::choose(const InstanceView& view, Instant) {
  const auto found = instances_.find(view.id);
  if (found == instances_.end()) return {view.spec->gpu.clock_max, "not of the fleet: maximum", Hold{}};
  Instance& instance = found->second;
  if (view.telemetry == Telemetry::Lost) {
    instance.decided_for = -1;
    return {instance.clocks.back(), "telemetry lost: maximum", Hold{}};
  }
  if (has_no_work(view)) return {instance.current.clock, "idle: clock kept", Hold::forever()};
  if (instance.decided_for == instance.arrivals) return instance.current;
  instance.decided_for = instance.arrivals;
  const StepShape& shape = view.step.shape;
  const RequestLatency& latency = *instance.spec->beliefs.request;
  // The regression is a sum of terms, of which only the requests' own differ, so the largest one suffices.
  double neediest = 0.0;
  for (const auto& [id, job] : instance.queue) {
    neediest = std::max(neediest, (job.dispatched - job.arrival).seconds() + latency.weights[4] * job.prompt_tokens +
                                      latency.weights[5] * job.output_tokens);
  }
  const auto fails = [&](MegaHertz clock) {
    const double common = latency.seconds(clock, shape.decode_requests + shape.prefill_requests,
                                          static_cast<double>(view.step.kv_tokens), 0.0, 0.0);
    return !(common + neediest <= instance.budget_s);
  };
  const auto lowest = std::ranges::find_if_not(instance.clocks, fails);
  const bool none = lowest == instance.clocks.end();
  instance.current = {
      none ? instance.clocks.back() : *lowest,
      none ? "no clock suits every queued request: maximum" : "lowest clock that suits every queued request",
      Hold::forever()};
  return instance.current;
}

}  // namespace wattle::policy
