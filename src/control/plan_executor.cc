#include "control/plan_executor.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace wattle::control {

namespace {

using journal::Phase;

/// Weights, clock ranges and other steps have nobody to carry them out here: such a plan is refused, not half done.
bool starts_and_drains_only(const Plan& plan) {
  return plan.weights.empty() && plan.clocks.empty() && std::ranges::all_of(plan.steps, [](const PlanStep& step) {
           return step.kind == StepKind::Start || step.kind == StepKind::Drain;
         });
}

bool is_coming(Phase phase) { return phase == Phase::Spawning || phase == Phase::Warming; }
bool is_serving(Phase phase) { return phase == Phase::Serving; }
bool is_draining(Phase phase) { return phase == Phase::Draining; }

}  // namespace

PlanExecutor::PlanExecutor(std::shared_ptr<policy::ScalingPolicy> policy, Mode mode, PlanExecutorOptions options,
                           FleetPort& port, journal::Sink& sink)
    : policy_(std::move(policy)),
      mode_(mode),
      options_(std::move(options)),
      port_(port),
      sink_(sink),
      attempts_(options_.shapes.size()),
      next_tick_(policy_ && mode_ != Mode::Off ? Instant() + options_.period : Instant::never()) {
  WATTLE_CHECK(options_.period > Span(), "an autoscaler has a period");
  for (const auto& shape : options_.shapes) bounds_.gpus_of_shape.push_back(shape.gpus);
}

PlanExecutor::Member* PlanExecutor::find(InstanceId instance) {
  const auto found = std::ranges::find(members_, instance, &Member::id);
  return found == members_.end() ? nullptr : &*found;
}

PlanExecutor::Member* PlanExecutor::last_of(std::size_t shape, bool (*in)(Phase)) {
  const auto found = std::find_if(members_.rbegin(), members_.rend(),
                                  [&](const Member& m) { return m.shape == shape && in(m.phase); });
  return found == members_.rend() ? nullptr : &*found;
}

void PlanExecutor::enter(Member& member, Phase phase, const char* reason, Instant now) {
  member.phase = phase;
  member.since = now;
  sink_.decision(
      {now, journal::DecisionKind::Phase, mode_, RequestId{-1}, member.id, static_cast<std::int64_t>(phase), reason});
}

void PlanExecutor::leave(InstanceId instance, const char* reason, Instant now) {
  Member* member = find(instance);
  enter(*member, Phase::Gone, reason, now);
  members_.erase(members_.begin() + (member - members_.data()));
}

const std::vector<policy::ShapeCount>& PlanExecutor::count() {
  counts_.assign(options_.shapes.size(), {});
  for (const auto& m : members_) {
    auto& c = counts_[m.shape];
    if (is_coming(m.phase)) ++c.coming;
    if (is_draining(m.phase)) ++c.draining;
    if (!is_serving(m.phase)) continue;
    ++c.serving;
    c.serving_since = std::max(c.serving_since, m.since);
  }
  return counts_;
}

// --- what is observed ---

void PlanExecutor::adopt(InstanceId instance, std::size_t shape, Instant now) {
  WATTLE_CHECK(shape < options_.shapes.size(), "a known shape");
  members_.push_back({instance, shape, Phase::Serving, now});
}

void PlanExecutor::up(InstanceId instance, Instant now) {
  Member* member = find(instance);
  if (member == nullptr || member->phase != Phase::Spawning) return;
  enter(*member, Phase::Warming, "it answers", now);
  port_.open(instance, now);
}

void PlanExecutor::serving(InstanceId instance, Instant now) {
  Member* member = find(instance);
  if (member == nullptr || !is_coming(member->phase)) return;
  attempts_[member->shape] = {};
  enter(*member, Phase::Serving, "it takes requests", now);
  carry_out(now);
}

void PlanExecutor::drained(InstanceId instance, Instant now) {
  Member* member = find(instance);
  if (member == nullptr || !is_draining(member->phase)) return;
  port_.stop(instance, now);
  leave(instance, "drained", now);
}

void PlanExecutor::failed(std::size_t shape, Instant now) {
  auto& attempts = attempts_[shape];
  Span pause = options_.retry;
  for (std::int32_t i = 0; i < attempts.failed && pause < options_.retry_max; ++i) pause += pause;
  ++attempts.failed;
  attempts.not_before = now + std::min(pause, options_.retry_max);
}

void PlanExecutor::died(InstanceId instance, Instant now) {
  const Member* member = find(instance);
  if (member == nullptr) return;
  if (is_coming(member->phase)) failed(member->shape, now);
  leave(instance, "it died", now);
  carry_out(now);
}

// --- the plan ---

void PlanExecutor::tick(Instant now) {
  if (next_tick_ == Instant::never()) return;
  const double seconds = (now - last_tick_).seconds();
  std::vector<double> rates;
  for (std::int64_t& arrived : arrivals_) {
    rates.push_back(seconds > 0.0 ? static_cast<double>(std::exchange(arrived, 0)) / seconds : 0.0);
  }
  last_tick_ = now;
  next_tick_ = now + options_.period;

  const Plan plan = policy_->plan({now, rates, count(), members_});
  const auto wanted = plan.wanted(options_.shapes.size());
  std::int64_t gpus = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) gpus += wanted[i] * options_.shapes[i].gpus;
  const char* flaw = flaw_of(plan, members_, bounds_);
  if (flaw == nullptr && !starts_and_drains_only(plan)) flaw = "only starts and drains can be carried out yet";
  const char* reason = flaw == nullptr ? plan.reason : flaw;
  sink_.decision({now, journal::DecisionKind::Scaling, mode_, RequestId{-1}, kNoInstance, gpus, reason});
  if (mode_ != Mode::Enforce) return;
  if (flaw == nullptr) wanted_ = wanted;  // else what was wanted before stands
  if (options_.spawn_limit != Span::max()) {
    for (std::size_t i = members_.size(); i-- > 0;) {
      const Member member = members_[i];
      if (!is_coming(member.phase) || now - member.since < options_.spawn_limit) continue;
      port_.stop(member.id, now);
      failed(member.shape, now);
      leave(member.id, "not up in time", now);
    }
  }
  carry_out(now);
}

bool PlanExecutor::wants_more() {
  if (!enforced()) return false;
  const auto& counts = count();
  for (std::size_t s = 0; s < wanted_.size(); ++s) {
    if (counts[s].serving < wanted_[s]) return true;
  }
  return wanted_.empty();
}

void PlanExecutor::carry_out(Instant now) {
  if (wanted_.empty()) return;
  again_ = true;
  if (busy_) return;
  busy_ = true;
  while (again_) {
    again_ = false;
    // One step at a time: a port that calls back changes the members.
    again_ = start_or_call_back(now) || give_up_coming(now) || drain_surplus(now) || again_;
  }
  busy_ = false;
}

bool PlanExecutor::start_or_call_back(Instant now) {
  const auto counts = count();
  const auto all = [&](auto field) {
    std::int32_t sum = 0;
    for (const auto& c : counts) sum += c.*field;
    return sum;
  };
  const bool dark = all(&policy::ShapeCount::serving) == 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    // A draining one is the quickest to have; with nothing serving any is better than none.
    const bool missing = counts[s].serving + counts[s].coming < wanted_[s];
    Member* member = missing || dark ? last_of(s, is_draining) : nullptr;
    if (member == nullptr) continue;
    const InstanceId id = member->id;
    enter(*member, Phase::Serving, "called back from draining", now);
    port_.open(id, now);
    return true;
  }
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s].serving + counts[s].coming >= wanted_[s] || now < attempts_[s].not_before) continue;
    const InstanceId id = port_.spawn({.shape = s}, now);
    members_.push_back({id, s, Phase::Spawning, now});
    enter(members_.back(), Phase::Spawning, "the plan wants it", now);
    return true;
  }
  return false;
}

bool PlanExecutor::give_up_coming(Instant now) {
  const auto& counts = count();
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s].coming == 0 || counts[s].serving + counts[s].coming <= wanted_[s]) continue;
    const InstanceId id = last_of(s, is_coming)->id;
    port_.stop(id, now);
    leave(id, "no longer wanted", now);
    return true;
  }
  return false;
}

bool PlanExecutor::drain_surplus(Instant now) {
  const auto& counts = count();
  std::int32_t serving = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    if (counts[s].serving < wanted_[s]) return false;
    serving += counts[s].serving;
  }
  for (std::size_t s = 0; s < counts.size() && serving > 1; ++s) {
    if (counts[s].serving <= wanted_[s]) continue;
    Member& member = *last_of(s, is_serving);
    const InstanceId id = member.id;
    enter(member, Phase::Draining, "what the plan wants serves", now);
    port_.drain(id, now);
    return true;
  }
  return false;
}

}  // namespace wattle::control
