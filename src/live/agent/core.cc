#include "live/agent/core.h"

#include <algorithm>

namespace wattle::live {

namespace {

/// ZeroMQ keeps the order of one publisher, so a number this far back is an engine that counts anew, not a straggler.
constexpr std::int64_t kStragglerDepth = 64;

}  // namespace

AgentCore::AgentCore(std::vector<AgentInstance> instances, AgentCoreOptions options, control::ClockPort& port,
                     journal::Sink& sink)
    : options_(options), port_(port), sink_(sink) {
  entries_.reserve(instances.size());
  for (auto& i : instances) add(std::move(i));
}

void AgentCore::add(AgentInstance i) {
  entries_.push_back(
      Entry{control::Throttle(i.view, std::move(i.policy), i.mode, i.beliefs, port_, sink_), {}, -1, {}});
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
  ++entry.counts.accepted;
  entry.sequence = report.sequence;
  entry.last = now;
  entry.lost = false;
  entry.in_flight = !report.shape.idle() || report.waiting_requests > 0;
  if (entry.in_flight) {
    entry.throttle.step(report, now);
  } else {
    entry.throttle.idle(now);
  }
  return true;
}

void AgentCore::tick(Instant now) {
  for (Entry& entry : entries_) {
    if (!entry.in_flight || entry.lost || now - entry.last < options_.lost_after) continue;
    entry.lost = true;
    ++entry.counts.losses;
    entry.throttle.lost(now);
  }
}

Instant AgentCore::next_tick() const {
  Instant next = Instant::never();
  for (const Entry& entry : entries_) {
    if (entry.in_flight && !entry.lost) next = std::min(next, entry.last + options_.lost_after);
  }
  return next;
}

}  // namespace wattle::live
