#include "policy/routing/eco_route.h"

#include <algorithm>
#include <utility>

#include "base/wide.h"

namespace wattle::policy {

namespace {

/// The decodes an instance will have once everything bound to it has arrived.
StepShape decodes_of(const InstanceView& view) {
  StepShape shape;
  shape.decode_requests = view.step.shape.decode_requests;
  shape.decode_kv_tokens = view.step.shape.decode_kv_tokens;
  const std::int64_t under_way =
      std::int64_t{view.assigned_requests} - view.step.waiting_requests - view.step.shape.decode_requests;
  if (under_way > 0) {
    shape.decode_requests += static_cast<std::int32_t>(under_way);
    const Int128 share = Int128{view.assigned_prompt_tokens} * under_way / view.assigned_requests;
    shape.decode_kv_tokens += static_cast<std::int64_t>(share);
  }
  return shape;
}

}  // namespace

EcoRoute::EcoRoute(EcoRouteOptions options) : options_(std::move(options)) {}

EcoRoute::WhatIf EcoRoute::what_if(const InstanceView& view, const Request& request) const {
  const auto index = static_cast<std::size_t>(view.id.value());
  if (index >= options_.instances.size() || options_.instances[index].rule.clocks.empty()) {
    return {view.clock_commanded, view.clock_commanded};
  }
  const auto& [rule, latency] = options_.instances[index];
  const MegaHertz top = rule.clocks.back();
  if (view.telemetry == Telemetry::Lost) return {top, top};

  StepShape shape = decodes_of(view);
  const std::int32_t waiting = view.step.waiting_requests;
  const bool empty = shape.idle() && waiting == 0;
  const MegaHertz now = empty ? rule.clocks.front() : clock_for(rule, shape, waiting, rule.itl, latency).clock;
  ++shape.decode_requests;
  shape.decode_kv_tokens += request.prompt_tokens + 1;  // its prompt and the token that prefill gave it
  const ClockChoice then = clock_for(rule, shape, waiting, rule.itl, latency);
  return {now, then.clock, then.predicted && !then.within};
}

RouteDecision EcoRoute::route(const Request& request, std::span<const InstanceView* const> candidates, Instant,
                              RandomStream&) {
  if (futures_.size() < candidates.size()) futures_.resize(candidates.size());
  std::size_t over = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    futures_[i] = what_if(*candidates[i], request);
    over += futures_[i].over ? 1U : 0U;
  }
  const bool sparing = options_.spare_overloaded && over < candidates.size();
  const auto spared = [sparing](const WhatIf& f) { return sparing && f.over; };

  std::size_t seen = 0;
  std::size_t rising = 0;
  WhatIf lowest;
  WhatIf highest;
  MegaHertz lowest_steady;  // the lowest clock now among those that do not rise
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const WhatIf& f = futures_[i];
    if (spared(f)) continue;
    if (seen == 0) lowest = highest = f;
    lowest = {std::min(lowest.now, f.now), std::min(lowest.then, f.then)};
    highest = {std::max(highest.now, f.now), std::max(highest.then, f.then)};
    if (f.rises()) {
      ++rising;
    } else if (rising == seen || f.now < lowest_steady) {  // the first that is steady, or a lower one
      lowest_steady = f.now;
    }
    ++seen;
  }

  // The next in turn among those that `fits` holds for.
  const auto pick = [&](const char* reason, auto fits) -> RouteDecision {
    std::size_t chosen = candidates.size();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (spared(futures_[i]) || !fits(futures_[i])) continue;
      if (candidates[i]->id >= next_) {
        chosen = i;
        break;
      }
      if (chosen == candidates.size()) chosen = i;
    }
    const InstanceId id = candidates[chosen]->id;
    next_ = InstanceId{id.value() + 1};
    return {id, reason};
  };

  if (rising == 0) {
    if (lowest.now == highest.now) {
      return pick("1a: all clocks equal: its turn", [](const WhatIf&) { return true; });
    }
    return pick("1b: none rises: lowest clock", [&](const WhatIf& f) { return f.now == lowest.now; });
  }
  if (rising == seen) {
    return pick("3: all rise: lowest resulting clock", [&](const WhatIf& f) { return f.then == lowest.then; });
  }
  if (highest.then.value() - lowest.then.value() <= options_.max_spread.value()) {
    return pick("2a: some rise: lowest clock that stays",
                [&](const WhatIf& f) { return !f.rises() && f.now == lowest_steady; });
  }
  if (options_.beyond_spread == BeyondSpread::LowestCurrent) {
    return pick("2b: wide spread: lowest current clock", [&](const WhatIf& f) { return f.now == lowest.now; });
  }
  return pick("2b: wide spread: lowest resulting clock", [&](const WhatIf& f) { return f.then == lowest.then; });
}

}  // namespace wattle::policy
