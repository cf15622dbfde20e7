#include "managers/instance_manager.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "managers/pool_map.h"

namespace wattle::managers {

namespace {

const plan::ProfiledClass& class_of(const plan::LoadTable& table, const InstanceManagerOptions& options,
                                    const InstanceSpec& spec) {
  const PoolMap map(table, static_cast<std::size_t>(options.pools));
  return map.profile(std::min(static_cast<std::size_t>(std::max(spec.pool.value(), 0)), map.pools() - 1));
}

}  // namespace

InstanceManager::InstanceManager(const InstanceManagerOptions& options, std::shared_ptr<const plan::LoadTable> table,
                                 const InstanceSpec& spec)
    : options_(options), table_(std::move(table)) {
  join(spec);
  clock_ = top_;
}

void InstanceManager::join(const InstanceSpec& spec) {
  class_ = &class_of(*table_, options_, spec);
  profiles_.clear();
  for (const auto& profile : class_->profiles) {
    if (profile.tp == spec.tensor_parallel) profiles_.push_back(&profile);
  }
  std::ranges::sort(profiles_, {}, &plan::ShardProfile::clock);
  top_ = profiles_.empty() ? spec.gpu.clock_max : profiles_.back()->clock;
}

void InstanceManager::delivered(const Delivered& news) {
  counted_ = true;
  prompt_tokens_ += static_cast<double>(news.prompt_tokens);
  output_tokens_ += static_cast<double>(news.tokens + news.prompts);
  admitted_ = admitted_ || news.prompts > 0;
}

void InstanceManager::hear(const StepReport& step) {
  const bool same = step.sequence == last_.sequence;
  if (same && step.start == last_.start) return;
  worked_ = worked_ || (!step.shape.idle() && !last_.shape.idle());  // of what has just begun nothing can have ended
  if (!same && !last_.shape.idle()) {
    // Steps between two reports were of the earlier one's batch.
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, step.sequence - last_.sequence));
    counted_ = true;
    prompt_tokens_ += static_cast<double>(last_.shape.prefill_tokens);
    output_tokens_ += steps * last_.shape.decode_requests + last_.shape.prefill_requests;
  }
  if (step.waiting_requests > 0) waited_ = true;
  if (step.shape.prefill_tokens > 0) admitted_ = true;
  last_ = step;
}

void InstanceManager::judge(Instant now) {
  const double seconds = (now - begun_).seconds();
  if (seconds <= 0.0) return;
  const double by_prompts = class_->prompt_tokens > 0.0 ? prompt_tokens_ / class_->prompt_tokens : 0.0;
  const double by_outputs = class_->output_tokens > 0.0 ? output_tokens_ / class_->output_tokens : 0.0;
  const double kept = std::exp(-seconds / options_.memory.seconds());
  mean_prompts_per_s_ = kept * mean_prompts_per_s_ + (1.0 - kept) * by_prompts / seconds;
  mean_outputs_per_s_ = kept * mean_outputs_per_s_ + (1.0 - kept) * by_outputs / seconds;
  // Of a new instance over as long as it has been there.
  seen_ = kept * seen_ + (1.0 - kept);
  load_per_s_ = std::max(mean_prompts_per_s_, mean_outputs_per_s_) / seen_;
}

void InstanceManager::decide() {
  if (worked_ && !counted_) {
    clock_ = top_;
    reason_ = "work that nobody counts: highest clock";
    return;
  }
  if (options_.queue && waited_ && !admitted_) {
    clock_ = top_;
    reason_ = "requests wait and none is taken in: highest clock";
    return;
  }
  const plan::ShardProfile* best = leanest_at(load_per_s_);
  clock_ = best == nullptr ? top_ : best->clock;
  reason_ = best == nullptr ? "no clock is known to carry the load: the highest"
                            : "least energy of the clocks that keep the objectives at this load";
}

const plan::ShardProfile* InstanceManager::leanest_at(double load_per_s) const {
  const plan::ShardProfile* best = nullptr;
  Watts least;
  for (const auto* profile : profiles_) {
    const auto most = plan::most_load(*profile, class_->limits);
    if (!most || load_per_s > *most * (1.0 - options_.margin)) continue;
    const auto point = plan::at_load(*profile, load_per_s);
    if (!point || (best != nullptr && point->power >= least)) continue;
    best = profile;
    least = point->power;
  }
  return best;
}

ClockDecision InstanceManager::choose(const InstanceView& view, Instant now) {
  if (!started_) {
    started_ = true;
    join(*view.spec);  // it may have been made before its pool was known
    begun_ = now;
    last_ = view.step;
  } else if (view.telemetry != Telemetry::Lost) {
    hear(view.step);
    if (now - begun_ >= options_.epoch) {
      judge(now);
      decide();
      begun_ = now;
      prompt_tokens_ = output_tokens_ = 0.0;
      admitted_ = waited_ = worked_ = counted_ = false;
    }
  } else {
    clock_ = top_;
    reason_ = "telemetry lost: highest clock";
  }
  if (policy::has_no_work(view)) {
    // What no load at all asks for stays until there is work.
    const plan::ShardProfile* rest = leanest_at(0.0);
    if (clock_ == (rest == nullptr ? top_ : rest->clock)) return {clock_, reason_, Hold::forever()};
  }
  // Asked at every step with prompt tokens, which are counted; pure decodes are known ahead.
  const std::int64_t kv = view.step.shape.prefill_tokens > 0 ? -1 : std::numeric_limits<std::int64_t>::max();
  return {clock_, reason_, Hold{kv, begun_ + options_.epoch}};
}

}  // namespace wattle::managers
