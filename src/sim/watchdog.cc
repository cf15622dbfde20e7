#include "sim/watchdog.h"

#include <algorithm>

namespace wattle::sim {

void Watchdog::watch(std::size_t i, std::int64_t sequence, Instant now) {
  Watched& w = watched_[i];
  ++w.generation;
  w.run = engines_[i].run();
  if (w.run.steps == 0) return;
  w.shape = loop_.view(i).step.shape;  // the step for which the clock was chosen
  w.sequence = sequence;
  w.since = now;
  expect(i, 0);
}

/// The first step of the run, at or after `from`, that will overrun, and when. The allowed time never falls as the KV
/// cache grows, so a step with time to spare shows that as many following steps as fit into that time do not overrun.
std::optional<Watchdog::Overrun> Watchdog::next(std::size_t i, std::int64_t from) const {
  constexpr std::int64_t kRounding = 2;  // ns
  const Watched& w = watched_[i];
  // A change of clock that is under way will stretch the step in which it takes effect, which is the last of the run.
  const Instant change = loop_.settled_from(i);
  const std::int64_t changed = change > w.run.begin_of(0) ? w.run.done_by(change) : w.run.steps;
  StepShape grown = w.shape;
  for (std::int64_t step = from; step < w.run.steps;) {
    grown.decode_kv_tokens = w.shape.decode_kv_tokens + step * w.shape.decode_requests;
    // A change of clock that is under way ends the run, so that what held at its first step holds.
    const Span allowed = loop_.allowed(i, grown, w.since);
    if (allowed == Span::max()) return std::nullopt;
    const Instant due = std::max(w.run.begin_of(step), w.since) + allowed;
    const Instant end = w.run.begin_of(step + 1);
    if (due < end || step == changed) return Overrun{step, due};
    const std::int64_t spare = (due - end).ns() - kRounding;
    const std::int64_t growth = (w.run.increment >> engine::kTimeFractionBits) + 1;  // ns a step, rounded up
    const std::int64_t vouched = w.run.increment == 0 && spare >= 0 ? w.run.steps : spare / growth;
    const std::int64_t following = step + std::max<std::int64_t>(1, vouched);
    step = step < changed ? std::min(following, changed) : following;
  }
  return std::nullopt;
}

void Watchdog::expect(std::size_t i, std::int64_t from) {
  const auto found = next(i, from);
  if (!found) return;
  Event event{found->due, EventClass::Overrun, 0, 0, watched_[i].generation, loop_.view(i).id, Span()};
  event.step = found->step;
  agenda_.push(event);
}

void Watchdog::expect_silence(std::size_t i, std::int64_t sequence, Instant now) {
  const engine::Replica::Run& run = engines_[i].run();
  const std::int64_t most = patience();
  const std::int64_t step = run.first <= most ? (most - run.first) / run.increment + 1 : 0;
  const Instant since = std::max(run.begin_of(step), now);
  Event event{loop_.lost_at(i, since), EventClass::Silence, 0, 0, 0, loop_.view(i).id, Span()};
  event.step = sequence + step;
  agenda_.push(event);
}

void Watchdog::silence(const Event& event) {
  const auto there = loop_.find(event.instance);
  if (!there || engines_[*there].dead() || engines_[*there].run().steps == 0) return;
  if (engines_[*there].report(event.at).sequence == event.step) loop_.silent(*there, event.at);
}

void Watchdog::overrun(const Event& event) {
  const auto there = loop_.find(event.instance);
  if (!there) return;
  const std::size_t i = *there;
  // The run may have been cut short and another begun, or a slower clock may have taken effect in an earlier step.
  const Watched& w = watched_[i];
  if (event.life != w.generation || engines_[i].run().steps == 0) return;
  if (engines_[i].report(event.at).sequence != w.sequence + event.step) return;
  if (loop_.overrun(i, event.at)) {
    engines_.interrupt(i, event.at);
  } else {
    expect(i, event.step + 1);
  }
}

}  // namespace wattle::sim
