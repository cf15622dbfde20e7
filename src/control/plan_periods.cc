// When the plan executor calls its policy, with which rates, and what it journals.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "control/plan_executor.h"
#include "journal/decisions_jsonl.h"

namespace wattle::control {

/// The fleet may differ from the last plan from this time on: plan again.
void PlanExecutor::ask_soon(Instant at) {
  if (next_tick_ != Instant::never()) next_tick_ = std::min(next_tick_, std::max(at, last_tick_));
}

void PlanExecutor::failed(std::size_t shape, Instant now) {
  auto& attempts = attempts_[shape];
  Span pause = options_.retry;
  for (std::int32_t i = 0; i < attempts.failed && pause < options_.retry_max; ++i) pause += pause;
  ++attempts.failed;
  attempts.not_before = now + std::min(pause, options_.retry_max);
  ask_soon(attempts.not_before);
}

/// Checks each sixth of a period. The threshold is beyond random variation of independent arrivals.
void PlanExecutor::look_for_surge(Instant now) {
  constexpr std::int64_t kLooks = 6;
  if (rates_.empty() || !surge_.empty() || now - looked_ < options_.period / kLooks) return;
  const double seconds = (now - looked_).seconds();
  double came = 0.0;
  std::vector<double> rates;
  for (std::size_t c = 0; c < arrivals_.size(); ++c) {
    const auto fresh = static_cast<double>(arrivals_[c] - (c < looked_at_.size() ? looked_at_[c] : 0));
    came += fresh;
    rates.push_back(fresh / seconds);
  }
  looked_ = now;
  looked_at_ = arrivals_;
  const double expected = std::accumulate(rates_.begin(), rates_.end(), 0.0) * seconds;
  if (came <= options_.surge * expected + 4.0 * std::sqrt(expected) + 10.0) return;
  surge_ = std::move(rates);
  ask_soon(now);
}

/// False for a few seconds of a period, as after its end or when arrivals were not reported: too short for a rate.
bool PlanExecutor::counted_enough(Instant now) const {
  return now >= period_ends_ && (now - counted_from_ - unheard_) * 2 >= options_.period;
}

/// Rates of a surge, else of the last period, or of a part of it if there is no complete one.
std::vector<double> PlanExecutor::rates(Instant now) const {
  if (!surge_.empty()) return surge_;
  if (!counted_enough(now) && !rates_.empty()) return rates_;
  const double seconds = (now - counted_from_ - unheard_).seconds();
  std::vector<double> rates;
  for (const std::int64_t arrived : arrivals_) {
    rates.push_back(seconds > 0.0 ? static_cast<double>(arrived) / seconds : 0.0);
  }
  return rates;
}

void PlanExecutor::tick(Instant now) {
  if (next_tick_ == Instant::never()) return;
  now = std::max(now, last_tick_);
  last_tick_ = now;
  const auto seen = rates(now);
  const bool over = now >= period_ends_;
  const bool enough = !surge_.empty() || counted_enough(now);
  if (enough) {
    surge_.clear();
    rates_ = seen;
    arrivals_.assign(arrivals_.size(), 0);
    looked_at_.assign(arrivals_.size(), 0);
    looked_ = now;
    counted_from_ = now;
    unheard_ = {};
  }
  if (over) period_ends_ = now + options_.period;
  next_tick_ = period_ends_;
  for (const auto& one : attempts_) {
    if (one.not_before > now) ask_soon(one.not_before);
  }
  if (over && !enough && rates_.empty()) return;  // no arrivals have ever been reported
  if (!planned_) resume_reshards();
  set_changing();
  bounds_.nodes = slots_.views();

  const TurnedOut turned_out = std::exchange(turned_out_, {});
  Plan plan = policy_->plan({now, seen, count(), members_, bounds_.nodes, weights_, clocks_, &turned_out});
  // Steps that are already running need not begin again.
  std::erase_if(plan.steps, [&](const PlanStep& step) {
    return std::ranges::any_of(step.from, [&](InstanceId id) { return claimed(id); });
  });
  std::int64_t gpus = 0;
  for (const PlanTarget& target : plan.instances) {
    if (target.shape < options_.shapes.size()) gpus += std::int64_t{target.count} * options_.shapes[target.shape].gpus;
  }
  const char* flaw = flaw_of(plan, members_, bounds_);
  const char* reason = flaw == nullptr ? plan.reason : flaw;
  sink_.decision({now, journal::DecisionKind::Scaling, mode_, RequestId{-1}, kNoInstance, gpus, reason});
  journal(plan, gpus, flaw, now);
  if (mode_ != Mode::Enforce) return;
  if (flaw == nullptr) accept(plan, now);  // otherwise the previous plan stays in force
  stop_late_starts(now);
  carry_out(now);
}

/// A plan of counts alone is in the decision's record already; repeated plans are not written again.
void PlanExecutor::journal(const Plan& plan, std::int64_t gpus, const char* flaw, Instant now) {
  const bool counts_alone = plan.weights.empty() && plan.clocks.empty() && plan.steps.empty() && !plan.given &&
                            plan.passed.empty() && plan.levels.empty() &&
                            std::ranges::none_of(plan.instances, [](const PlanTarget& t) { return t.node || t.pool; });
  if (counts_alone) return;
  std::string line;
  journal::append_plan_line(line, {Instant(), mode_, plan, gpus, flaw});
  if (line == last_plan_) return;
  last_plan_ = std::move(line);
  sink_.plan({now, mode_, plan, gpus, flaw});
}

}  // namespace wattle::control
