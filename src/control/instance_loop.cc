#include "control/instance_loop.h"

#include <algorithm>
#include <utility>

#include "control/next_step.h"

namespace wattle::control {

namespace {

/// ZeroMQ keeps the order of one publisher, so a number this far back means that the engine was restarted, not that a
/// report is late.
constexpr std::int64_t kStragglerDepth = 64;

}  // namespace

InstanceLoop::InstanceLoop(InstanceLoopOptions options, InstancePort& port, journal::Sink& sink)
    : options_(options), port_(port), sink_(sink) {}

std::size_t InstanceLoop::add(LoopInstance i) {
  const InstanceId id = i.view.id;
  const bool decides = i.policy != nullptr && i.mode != Mode::Off;
  Throttle throttle(i.view, std::move(i.policy), i.mode, port_, sink_, i.overrun_slack);
  Entry entry{.spec = std::move(i.spec),
              .throttle = std::move(throttle),
              .learner = i.learner,
              .decides = decides,
              .ends = i.reports == StepMoment::Ended,
              .before = i.view.clock_commanded};
  entries_.push_back(std::move(entry));
  const std::size_t position = index_.add(id);
  if (i.learner != nullptr && std::ranges::find(learners_, i.learner) == learners_.end()) {
    learners_.push_back(i.learner);
  }
  return position;
}

void InstanceLoop::remove(InstanceId id) {
  const std::size_t i = index_.remove(id);
  overruns_of_gone_ += entries_[i].throttle.overruns();
  erase_at(entries_, i);
}

std::int64_t InstanceLoop::overruns() const {
  std::int64_t all = overruns_of_gone_;
  for (const Entry& entry : entries_) all += entry.throttle.overruns();
  return all;
}

bool InstanceLoop::report(const StepReport& report, Instant now) {
  const auto i = find(report.instance);
  if (!i) {
    ++unknown_;
    return false;
  }
  if (!in_order(entries_[*i], report.sequence)) return false;
  step(*i, report, now);
  return true;
}

/// Counts it.
bool InstanceLoop::in_order(Entry& entry, std::int64_t sequence) {
  TelemetryCounts& counts = entry.counts;
  if (entry.sequence >= 0) {
    const std::int64_t ahead = sequence - entry.sequence;
    if (ahead == 0) {
      ++counts.duplicates;
      return false;
    }
    if (ahead < 0 && ahead >= -kStragglerDepth && sequence > 1) {
      ++counts.late;
      return false;
    }
    if (ahead < 0) {
      ++counts.restarts;
    } else {
      counts.missed += ahead - 1;
    }
  }
  ++counts.accepted;
  return true;
}

Hold InstanceLoop::step(std::size_t i, const StepReport& report, Instant now) {
  Entry& entry = entries_[i];
  if (std::exchange(entry.measures, false)) measured(entry, report, now);
  entry.sequence = report.sequence;
  heard(entry, now);
  entry.reported = now;
  entry.lost = entry.steps_lost = false;
  entry.ends = report.moment == StepMoment::Ended;
  entry.source = entry.ends ? TelemetrySource::StepEnds : TelemetrySource::StepStarts;
  if (!std::exchange(entry.work_is_new, false)) entry.work.reset();
  if (!entry.ends) {
    decide(entry, report, true, now);
  } else {
    const InstanceSpec& spec = *entry.throttle.view().spec;
    const StepReport next = next_step(report, spec, entry.work);
    // The engine sent this heartbeat before it received the requests that are on their way to it.
    const bool crossed = next.shape.idle() && entry.in_flight && report.shape.idle() && entry.work &&
                         entry.work->prompts > 0 && spec.role != Role::Decode;
    if (crossed) return entry.hold;
    decide(entry, next, !report.shape.idle(), now);
  }
  if (entry.learner != nullptr) refit_if_due(entry, now);
  return entry.hold;
}

void InstanceLoop::refit_if_due(Entry& entry, Instant now) {
  if (!entry.learner->refit_due()) return;
  port_.refit(*entry.learner, entry.learner->begin_refit(), now);
}

void InstanceLoop::learn(std::size_t i, const predict::StepSample& sample, Instant now) {
  Entry& entry = entries_[i];
  if (entry.learner == nullptr) return;
  if (entry.learner->add(sample)) beliefs_changed(entry.learner, now);
  refit_if_due(entry, now);
}

template <typename Action>
void InstanceLoop::act(Entry& entry, Instant now, Action&& action) {
  const MegaHertz before = entry.throttle.view().clock_commanded;
  action(entry.throttle);
  if (entry.throttle.view().clock_commanded == before) return;
  entry.before = now >= entry.settled_from ? before : std::min(entry.before, before);
  entry.settled_from = now + options_.settle;
  entry.measures = false;
}

/// `measurable`: the report is sent when the step starts, so its duration can be measured.
void InstanceLoop::decide(Entry& entry, const StepReport& next, bool measurable, Instant now) {
  entry.in_flight = !next.shape.idle() || next.waiting_requests > 0;
  entry.idle_until = Instant::never();
  if (entry.in_flight) {
    act(entry, now, [&](Throttle& throttle) { entry.hold = throttle.step(next, now); });
  } else {
    entry.throttle.see(next);  // The previous report may be of a much earlier step if a driver skips steps.
    rest(entry, now);
  }
  if (entry.throttle.view().spec->beliefs.latency != nullptr) begun(entry, measurable, now);
  // Its duration follows only from the next report.
  if (entry.measures) entry.hold = Hold{};
}

bool InstanceLoop::work(std::size_t i, const InstanceWork& work, Instant now) {
  note(i, work);
  Entry& entry = entries_[i];
  const std::optional<Delivered> before = std::exchange(entry.delivered, work.delivered);
  if (!hears_steps(entry)) {
    // The counter was restarted, or there is no earlier value.
    const bool goes_on = before && before->prompts <= work.delivered.prompts && before->tokens <= work.delivered.tokens;
    if (goes_on && work.delivered != *before) entry.throttle.delivered(work.delivered.since(*before));
    const InstanceSpec& spec = *entry.throttle.view().spec;
    // Like a report of a started step: requests that arrived since then do not change the step in progress.
    return infer(i, seen_by_streams(work.begun(), spec, entry.throttle.view().clock_commanded, now),
                 TelemetrySource::Streams, now);
  }
  if (!entry.ends) return false;
  const InstanceView& view = entry.throttle.view();
  const bool begins = view.spec->role == Role::Decode ? work.requests > 0 : work.prompts > 0;
  const bool stops = entry.in_flight && work.requests == 0;
  if (!stops && (entry.in_flight || !begins)) return false;
  heard(entry, now);
  entry.reported = now;
  StepReport first = first_step(view.step, *view.spec, work, now);
  first.instance = view.id;
  first.sequence = entry.sequence + 1;
  decide(entry, first, false, now);
  return true;
}

bool InstanceLoop::infer(std::size_t i, StepReport seen, TelemetrySource source, Instant now) {
  Entry& entry = entries_[i];
  if (hears_steps(entry)) return false;
  heard(entry, now);
  entry.lost = false;
  entry.inferred = true;
  entry.source = source;
  seen.instance = entry.throttle.view().id;
  seen.moment = StepMoment::Starts;
  seen.sequence = entry.sequence;
  decide(entry, seen, false, now);
  cut_off(i);
  return true;
}

void InstanceLoop::see(std::size_t i, const StepReport& ended) {
  Entry& entry = entries_[i];
  if (entry.in_flight && ended.sequence > entry.sequence)
    entry.throttle.see(next_step(ended, *entry.throttle.view().spec, entry.work));
}

Hold InstanceLoop::ahead(std::size_t i, const StepReport& starts) const {
  const Entry& entry = entries_[i];
  const StepReport& next = entry.throttle.view().step;
  const bool expected = entry.in_flight && next.shape == starts.shape &&
                        next.waiting_requests == starts.waiting_requests &&
                        next.waiting_prompt_tokens == starts.waiting_prompt_tokens;
  return expected ? entry.hold : Hold{};
}

void InstanceLoop::idle(std::size_t i, Instant now) {
  cut_off(i);
  entries_[i].in_flight = false;
  rest(entries_[i], now);
}

/// Nothing is in flight. If a policy's decision expires immediately, the policy is not called in a loop.
void InstanceLoop::rest(Entry& entry, Instant now) {
  Instant until;
  act(entry, now, [&](Throttle& throttle) { until = throttle.idle(now); });
  entry.hold = Hold::forever();
  entry.idle_until = until > now ? until : Instant::never();
  if (entry.idle_until != Instant::never()) port_.asks_idle(entry.throttle.view().id, until);
}

void InstanceLoop::ask_idle(std::size_t i, Instant now) {
  if (!entries_[i].in_flight && entries_[i].idle_until <= now) rest(entries_[i], now);
}

void InstanceLoop::cut_off(std::size_t i) {
  entries_[i].measures = false;
  entries_[i].overrun_at = Instant::never();
}

void InstanceLoop::bound(std::size_t i, const std::optional<ClockRange>& range, Instant now) {
  Entry& entry = entries_[i];
  act(entry, now, [&](Throttle& throttle) { throttle.bound(range, now); });
  entry.hold = Hold{};
  port_.ask_again(entry.throttle.view().id, now);
}

void InstanceLoop::become(std::size_t i, std::shared_ptr<const InstanceSpec> spec,
                          std::shared_ptr<policy::FrequencyPolicy> policy, Instant now) {
  Entry& entry = entries_[i];
  entry.throttle.become(*spec, std::move(policy));
  entry.spec = std::move(spec);  // the view no longer refers to the previous spec
  port_.ask_again(entry.throttle.view().id, now);
}

void InstanceLoop::held_to(std::size_t i, const Slo& slo, Instant now) {
  Entry& entry = entries_[i];
  entry.throttle.held_to(slo);
  entry.hold = Hold{};
  port_.ask_again(entry.throttle.view().id, now);
}

void InstanceLoop::boost(std::size_t i, Instant until, Instant now) {
  Entry& entry = entries_[i];
  act(entry, now, [&](Throttle& throttle) { throttle.boost(until, now); });
  entry.hold = Hold{};
  port_.ask_again(entry.throttle.view().id, now);
}

/// The measured step has ended. If reports are of ended steps, `next` has its actual shape, which may differ from the
/// predicted one.
void InstanceLoop::measured(Entry& entry, const StepReport& next, Instant now) {
  const StepReport& step = entry.measuring;
  const bool ended = next.moment == StepMoment::Ended;
  if (next.sequence != step.sequence + (ended ? 0 : 1)) return;
  const StepShape& shape = ended ? next.shape : step.shape;
  if (shape.idle()) return;
  const predict::StepSample sample{step.clock, shape, port_.measured(next.start - step.start)};
  const Span predicted = entry.throttle.predicted(shape, step.clock);
  if (predicted > Span()) entry.pace.measured(sample.duration.seconds() / predicted.seconds(), step.clock, now);
  entry.pace_due = now + options_.paced;
  if (entry.learner == nullptr) return;
  port_.learns(entry.throttle.view().id, sample);
  if (entry.learner->add(sample)) beliefs_changed(entry.learner, now);
}

/// Whether a step is certainly running if only the end of its predecessor was reported: the last request may have left
/// with that step, or new requests may not have reached the engine yet.
bool InstanceLoop::surely_busy(const Entry& entry) {
  if (!entry.ends) return entry.in_flight;
  const InstanceView& view = entry.throttle.view();
  const StepShape& shape = view.step.shape;
  if (entry.work && view.spec->role != Role::Decode) return entry.in_flight && entry.work->requests > 0;
  return entry.in_flight && (shape.prefill_requests > 0 || shape.decode_requests > 1);
}

void InstanceLoop::begun(Entry& entry, bool measurable, Instant now) {
  const InstanceView& view = entry.throttle.view();
  const bool watches = surely_busy(entry) && (measurable || view.spec->role != Role::Decode);
  const Span most = watches ? allowed(entry, view.step.shape, now) : Span::max();
  entry.overrun_at = most == Span::max() ? Instant::never() : now + most;
  // Before the first command the clock is unknown.
  const bool due = entry.learner != nullptr || now >= entry.pace_due;
  entry.measures = due && entry.in_flight && measurable && now >= entry.settled_from &&
                   view.clock_commanded.value() > 0 && entry.throttle.asked();
  if (!entry.measures) return;
  entry.measuring = view.step;
  entry.measuring.clock = view.clock_commanded;
}

Span InstanceLoop::allowed(const Entry& entry, const StepShape& shape, Instant at) {
  const MegaHertz commanded = entry.throttle.view().clock_commanded;
  const MegaHertz slowest = at >= entry.settled_from ? commanded : std::min(commanded, entry.before);
  return slowest.value() > 0 ? entry.throttle.allowed(shape, slowest) : Span::max();
}

bool InstanceLoop::overrun(std::size_t i, Instant now) {
  Entry& entry = entries_[i];
  entry.overrun_at = Instant::never();
  bool raised = false;
  act(entry, now, [&](Throttle& throttle) { raised = throttle.overrun(now); });
  if (raised) entry.hold = Hold{};
  return raised;
}

std::shared_ptr<const LatencyModel> InstanceLoop::refitted(predict::OnlineLatency& learner,
                                                           Result<std::shared_ptr<const LatencyModel>> model,
                                                           Instant now) {
  auto ended = learner.end_refit(std::move(model));
  if (ended.changed) beliefs_changed(&learner, now);
  return std::move(ended.discarded);
}

/// Invalidates all decisions that were made with this predictor.
void InstanceLoop::beliefs_changed(const predict::OnlineLatency* learner, Instant now) {
  for (Entry& entry : entries_) {
    if (entry.learner != learner) continue;
    entry.throttle.forget_hold();
    entry.hold = Hold{};
    port_.ask_again(entry.throttle.view().id, now);
  }
}

Instant InstanceLoop::lost_at(std::size_t i, Instant since) const {
  const Entry& entry = entries_[i];
  const MegaHertz commanded = entry.throttle.view().clock_commanded;
  const MegaHertz slowest = since >= entry.settled_from ? commanded : std::min(commanded, entry.before);
  return since + entry.throttle.predicted(entry.throttle.view().step.shape, slowest) + options_.lost_after;
}

void InstanceLoop::silent(std::size_t i, Instant now) {
  Entry& entry = entries_[i];
  if (!entry.in_flight || entry.lost) return;
  ++entry.counts.losses;
  lose(entry, now);
  port_.ask_again(entry.throttle.view().id, now);
}

void InstanceLoop::lose(Entry& entry, Instant now) {
  entry.lost = entry.steps_lost = true;
  entry.measures = false;
  entry.hold = Hold{};
  act(entry, now, [now](Throttle& throttle) { throttle.lost(now); });
}

void InstanceLoop::tick(Instant now) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    entry.since = std::min(entry.since, now);
    if (unheard(entry) && now - entry.since >= options_.silent_after) {
      ++entry.counts.silent;
      lose(entry, now);
    }
    if (entry.overrun_at <= now) overrun(i, now);
    ask_idle(i, now);
    if (ask_at(entry) <= now) {  // if steps are reported, the next report triggers a decision
      decide(entry, StepReport(entry.throttle.view().step), false, now);
      cut_off(i);
      if (entry.hold.until <= now) entry.hold.until = Instant();
    }
    if (!entry.in_flight || entry.lost || now < entry.lost_at) continue;
    // A long step is no loss of telemetry. Its length is predicted only here, because few steps take so long.
    if (!std::exchange(entry.patient, true)) entry.lost_at = lost_at(i, entry.last);
    if (now >= entry.lost_at) silent(i, now);
  }
}

Instant InstanceLoop::next_tick() const {
  Instant next = Instant::never();
  for (const Entry& entry : entries_) {
    next = std::min({next, entry.overrun_at, ask_at(entry)});
    if (unheard(entry) && entry.since != Instant::never()) {
      next = std::min(next, entry.since + options_.silent_after);
    }
    if (entry.in_flight && !entry.lost) next = std::min(next, entry.lost_at);
  }
  return next;
}

journal::Prediction InstanceLoop::prediction() const {
  journal::Prediction all;
  const auto merge = [](journal::PredictionError& into, const predict::OnlineError& e) {
    if (e.samples == 0) return;
    const auto a = static_cast<double>(into.samples);
    const auto b = static_cast<double>(e.samples);
    into.offline_ms = (a * into.offline_ms + b * e.offline_ms) / (a + b);
    into.active_ms = (a * into.active_ms + b * e.active_ms) / (a + b);
    into.samples += e.samples;
  };
  for (const auto* learner : learners_) {
    merge(all.prefill, learner->since_start(true));
    merge(all.decode, learner->since_start(false));
    // The newest drift, not the mean, which would hide a recent change.
    if (const auto e = learner->newest(true); e.samples > 0) all.prefill.drift = e.drift;
    if (const auto e = learner->newest(false); e.samples > 0) all.decode.drift = e.drift;
    const auto& counts = learner->counts();
    all.refits += counts.refits;
    all.adopted += counts.adopted;
    all.rejected += counts.rejected;
    all.failed += counts.failed;
    all.rolled_back += counts.rolled_back;
  }
  return all;
}

}  // namespace wattle::control
