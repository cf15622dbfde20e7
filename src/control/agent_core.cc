#include "control/agent_core.h"

#include <algorithm>
#include <utility>

namespace wattle::control {

namespace {

/// ZeroMQ keeps the order of one publisher, so a number this far back is an engine that counts from 0 again, not a
/// straggler.
constexpr std::int64_t kStragglerDepth = 64;

}  // namespace

AgentCore::AgentCore(std::vector<AgentInstance> instances, AgentCoreOptions options, control::ClockPort& port,
                     journal::Sink& sink)
    : options_(options), port_(port), sink_(sink) {
  entries_.reserve(instances.size());
  for (auto& i : instances) add(std::move(i));
}

void AgentCore::add(AgentInstance i) {
  const bool decides = i.policy != nullptr && i.mode != Mode::Off;
  control::Throttle throttle(i.view, std::move(i.policy), i.mode, port_, sink_, i.overrun_slack);
  entries_.push_back(Entry{std::move(i.spec), std::move(throttle), {}, -1, {}});
  entries_.back().learner = i.learner;
  entries_.back().decides = decides;
  if (i.learner != nullptr && std::ranges::find(learners_, i.learner) == learners_.end()) {
    learners_.push_back(i.learner);
  }
}

bool AgentCore::report(const StepReport& report, Instant now) {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& e) { return e.throttle.view().id == report.instance; });
  if (found == entries_.end()) {
    ++unknown_;
    return false;
  }
  Entry& entry = *found;
  if (entry.sequence >= 0) {
    const std::int64_t ahead = report.sequence - entry.sequence;
    if (ahead == 0) {
      ++entry.counts.duplicates;
      return false;
    }
    if (ahead < 0 && ahead >= -kStragglerDepth && report.sequence > 1) {
      ++entry.counts.late;
      return false;
    }
    if (ahead < 0) {
      ++entry.counts.restarts;
    } else {
      entry.counts.missed += ahead - 1;
    }
  }
  measured(entry, report);
  ++entry.counts.accepted;
  entry.sequence = report.sequence;
  entry.last = now;
  entry.lost = false;
  entry.in_flight = !report.shape.idle() || report.waiting_requests > 0;
  const MegaHertz before = entry.throttle.view().clock_commanded;
  if (entry.in_flight) {
    entry.throttle.step(report, now);
  } else {
    entry.throttle.idle(now);
  }
  begun(entry, before, now);
  return true;
}

/// The step before has ended where this report begins.
void AgentCore::measured(Entry& entry, const StepReport& next) {
  const StepReport& step = entry.measuring;
  if (!std::exchange(entry.measures, false) || next.sequence != step.sequence + 1) return;
  if (entry.learner->add({step.clock, step.shape, next.start - step.start})) beliefs_changed(entry.learner);
}

/// `before`: the clock commanded until this report.
void AgentCore::begun(Entry& entry, MegaHertz before, Instant now) {
  const InstanceView& view = entry.throttle.view();
  if (view.clock_commanded != before) {
    entry.commanded = now;
    entry.before = before;
  }
  const bool settled = now - entry.commanded >= options_.settle;
  // Before the first command the clock is anyone's guess.
  const bool known = view.clock_commanded.value() > 0 && (settled || entry.before.value() > 0);
  const Span allowed = !entry.in_flight || !known
                           ? Span::max()
                           : entry.throttle.allowed(view.step.shape, settled ? view.clock_commanded : entry.before);
  entry.overrun_at = allowed == Span::max() ? Instant::never() : now + allowed;
  entry.measures = entry.learner != nullptr && entry.in_flight && settled && known && entry.throttle.asked();
  if (!entry.measures) return;
  entry.measuring = view.step;
  entry.measuring.clock = view.clock_commanded;
}

void AgentCore::beliefs_changed(const predict::OnlineLatency* learner) {
  for (Entry& entry : entries_) {
    if (entry.learner == learner) entry.throttle.forget_hold();
  }
}

void AgentCore::tick(Instant now) {
  for (Entry& entry : entries_) {
    entry.since = std::min(entry.since, now);
    if (unheard(entry) && now - entry.since >= options_.silent_after) {
      entry.lost = true;
      ++entry.counts.silent;
      entry.throttle.lost(now);
    }
    if (entry.overrun_at <= now) {
      entry.overrun_at = Instant::never();
      const MegaHertz before = entry.throttle.view().clock_commanded;
      entry.throttle.overrun(now);
      if (entry.throttle.view().clock_commanded != before) {
        entry.commanded = now;
        entry.before = before;
        entry.measures = false;
      }
    }
    if (!entry.in_flight || entry.lost || now - entry.last < options_.lost_after) continue;
    entry.lost = true;
    entry.measures = false;
    ++entry.counts.losses;
    entry.throttle.lost(now);
  }
}

Instant AgentCore::next_tick() const {
  Instant next = Instant::never();
  for (const Entry& entry : entries_) {
    next = std::min(next, entry.overrun_at);
    if (unheard(entry) && entry.since != Instant::never()) {
      next = std::min(next, entry.since + options_.silent_after);
    }
    if (entry.in_flight && !entry.lost) next = std::min(next, entry.last + options_.lost_after);
  }
  return next;
}

}  // namespace wattle::control
