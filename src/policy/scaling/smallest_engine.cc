#include "policy/scaling/smallest_engine.h"

#include <algorithm>

#include "base/check.h"

namespace wattle::policy {

SmallestEngine::SmallestEngine(SmallestEngineOptions options) : options_(std::move(options)) {
  WATTLE_CHECK(!options_.shapes.empty(), "a fleet has at least one shape");
  WATTLE_CHECK(options_.margin >= 0.0 && options_.margin < 1.0, "the scaling margin is a share below 1");
  for (std::size_t i = 1; i < options_.shapes.size(); ++i) {
    WATTLE_CHECK(options_.shapes[i - 1].gpus < options_.shapes[i].gpus &&
                     options_.shapes[i - 1].max_load_per_s < options_.shapes[i].max_load_per_s,
                 "shapes ascend in GPUs and in maximum load");
  }
}

std::size_t SmallestEngine::smallest_for(double rate_per_s) const {
  const auto covers = [&](const Shape& s) { return rate_per_s <= s.max_load_per_s * (1.0 - options_.margin); };
  const auto found = std::ranges::find_if(options_.shapes, covers);
  return found == options_.shapes.end() ? options_.shapes.size() - 1
                                        : static_cast<std::size_t>(found - options_.shapes.begin());
}

Span SmallestEngine::grace(std::size_t shape) const {
  return options_.grace.value_or(options_.shapes[shape].spawn_time);
}

/// One instance of the current shape.
Plan SmallestEngine::keep(const char* reason) const {
  Plan plan;
  plan.instances.push_back({*current_, 1, {}, {}});
  plan.reason = reason;
  return plan;
}

Plan SmallestEngine::switch_to(std::size_t shape, Instant now, const char* reason) {
  current_ = shape;
  switched_at_ = now;
  grace_until_ = now + grace(shape);
  return keep(reason);
}

Plan SmallestEngine::plan(const ScalingView& view) {
  WATTLE_CHECK(view.fleet.size() == options_.shapes.size(), "one count per shape");
  double rate = 0.0;
  for (const double r : view.rate_per_s) rate += r;
  const std::size_t needed = smallest_for(rate);
  if (!current_) {
    // The initial fleet counts as the last wanted one.
    for (std::size_t i = 0; i < view.fleet.size(); ++i) {
      if (view.fleet[i].serving + view.fleet[i].coming == 0) continue;
      switch_to(i, view.now, "");
      grace_until_ = view.fleet[i].serving_since + grace(i);
    }
    if (!current_) return switch_to(needed, view.now, "nothing runs: the smallest engine that covers the rate");
  }
  const std::size_t current = *current_;
  const ShapeCount& now_running = view.fleet[current];
  const Span spawn = options_.shapes[current].spawn_time;
  if (now_running.serving > 0) {
    grace_until_ = std::max(grace_until_, now_running.serving_since + grace(current));
  } else {
    // Not there yet: an engine that is only assumed (shadow mode) counts after its spawn time.
    grace_until_ = std::max(grace_until_, switched_at_ + spawn + grace(current));
  }
  if (needed == current) {
    grace_until_ = std::max(grace_until_, view.now + grace(current));
    return keep("the smallest engine that covers the rate");
  }
  if (needed > current) return switch_to(needed, view.now, "the rate is above this engine's: a larger one");
  if (now_running.serving == 0 && now_running.coming > 0) return keep("starting: nothing smaller meanwhile");
  if (view.now < grace_until_) return keep("grace period: nothing smaller");
  return switch_to(needed, view.now, "a smaller engine covers the rate");
}

}  // namespace wattle::policy
