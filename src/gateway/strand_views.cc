// What the gateway knows of each engine's load: its step reports, else the streams it relays and the engine's gauges.
#include <algorithm>

#include "control/next_step.h"
#include "gateway/strand.h"
#include "net/faults.h"

namespace wattle::gateway {

namespace {
constexpr Span kSamplePeriod = Span::s(1);
constexpr Span kGaugesBelieved = Span::s(1);  ///< older ones say nothing of now
}  // namespace

ViewSource ControlStrand::source_at(std::size_t i, Instant now) const {
  const Instant last = watch_.last_report(i);
  const bool fresh = last != Instant() && now - last < watch_options_.telemetry.lost_after;
  return places_[i].step_reports && fresh ? ViewSource::StepReports : ViewSource::Streams;
}

void ControlStrand::take(const StepReport& report, Instant received, Instant now) {
  received_ = received;
  const auto i = index_.find(report.instance);
  if (i) watch_.note(*i, book_.of(report.instance));
  if (watch_.report(report, now)) {
    places_[*i].engine_clock = report.clock;
    show(*i, watch_.ends(*i) ? watch_.view(*i).step : report, now);
  }
  received_ = Instant::never();
}

/// Commands that are on their way count: what was decided here is newer than what an engine or its agent reports.
MegaHertz ControlStrand::clock_of(std::size_t i) const {
  return watch_options_.clocks != nullptr ? watch_.view(i).clock_commanded : places_[i].engine_clock;
}

/// What an instance does by its own reports, to those who read it. Of ended steps: what is to be expected after them.
void ControlStrand::show(std::size_t i, StepReport shown, Instant now) {
  shown.instance = index_[i];
  shown.start = now;
  shown.clock = clock_of(i);
  requests_.report(shown, watch_.pace(i));
  if (ledger_ != nullptr) ledger_->step(shown.instance, shown.shape.prefill_tokens, now);
}

void ControlStrand::tell_work(Instant now) {
  if (!book_.changed()) return;
  for (const InstanceId instance : book_.take_changed()) {
    const auto i = index_.find(instance);
    if (!i) continue;  // taken out since
    try {
      tell_work(*i, now);
    } catch (...) {  // the strand must never stay taken
      net::count_fault("telling an agent of its work");
    }
  }
}

namespace {
/// Our own records, with the tokens that have come.
control::InstanceWork own_work(const control::InstanceWork& work, const StreamCounts& streams) {
  return work.with_streams(streams.kv_tokens.load(std::memory_order_relaxed),
                           streams.tokens.load(std::memory_order_relaxed),
                           Span(streams.gaps_ns.load(std::memory_order_relaxed)));
}
}  // namespace

/// Where no step report is heard: ours, and what the engine's gauges had beyond it, for as long as they are believed.
control::InstanceWork ControlStrand::seen_work(std::size_t i, Instant now) const {
  const Place& place = places_[i];
  control::InstanceWork work = own_work(book_.of(index_[i]), *place.worker->streams);
  if (!gauged(index_[i], now)) return work;
  work.requests += place.others.requests;
  work.prompts += place.others.prompts;
  work.output_tokens += place.others.output_tokens;
  return work;
}

void ControlStrand::gauges(InstanceId id, const LoadGauges& gauges, Instant read) {
  run([this, id, gauges, read](control::FleetLoop&, Instant now) {
    const auto i = index_.find(id);
    if (!i || watch_.hears_steps(*i)) return;
    Place& place = places_[*i];
    const control::InstanceWork own = own_work(book_.of(id), *place.worker->streams);
    const control::InstanceWork before = place.others;
    place.gauges = gauges;
    place.gauges_at = read;
    place.others = {};
    // ORCA says nothing of those that run, and the one whose answer brought it does not wait.
    const std::int32_t prompts = gauges.running ? own.prompts : std::max(0, own.prompts - 1);
    const std::int32_t running = gauges.running.value_or(own.requests - prompts);
    const std::int32_t waiting = gauges.waiting.value_or(0);
    place.others.requests = std::max(0, running + waiting - own.requests);
    place.others.prompts = std::min(place.others.requests, std::max(0, waiting - prompts));
    const StepReport said = control::seen_by_gauges(gauges, *watch_.view(*i).spec, now);
    const std::int64_t ours = own.context_tokens - own.prompt_tokens + own.output_tokens;
    // A cache that nobody runs in keeps prefixes.
    if (place.others.requests > 0) place.others.output_tokens = std::max<std::int64_t>(0, said.kv_tokens - ours);
    if (place.others != before) tell_work(*i, now);
  });
}

std::optional<ControlStrand::Gauged> ControlStrand::gauged(InstanceId id, Instant now) const {
  const Place& place = places_[index_.at(id)];
  if (place.gauges_at == Instant::never() || now - place.gauges_at > kGaugesBelieved) return std::nullopt;
  return Gauged{place.gauges, place.gauges_at};
}

void ControlStrand::tell_work(std::size_t i, Instant now) {
  const InstanceId instance = index_[i];
  const bool hears_steps = watch_.hears_steps(i);
  if (hears_steps && !watch_.ends(i)) return;  // its reports say it themselves
  const control::InstanceWork work = hears_steps ? book_.of(instance) : seen_work(i, now);
  if (watch_.work(i, work, now) && hears_steps) show(i, watch_.view(i).step, now);
  if (watch_options_.work) watch_options_.work(instance, work);
}

void ControlStrand::take(const EngineReading& reading, Instant now) {
  const auto i = index_.find(reading.instance);
  if (i && !watch_.hears_steps(*i)) places_[*i].engine_clock = reading.commanded;
  if (ledger_ == nullptr) return;
  ledger_->reading(reading);
  if (!i || now < places_[*i].sampled + kSamplePeriod) return;
  places_[*i].sampled = now;
  const StepReport& step = requests_.shown(reading.instance).step;
  sink_.sample({reading.at, reading.instance, reading.power, reading.clock, step.shape.decode_requests,
                step.shape.prefill_tokens, step.waiting_requests, step.kv_tokens,
                ledger_->ledger().totals(reading.instance).total.energy});
}

void ControlStrand::look(Instant now) {
  for (std::size_t i = 0; i < index_.size(); ++i) refresh(index_[i], now);
}

void ControlStrand::watch(Instant now) {
  watch_.tick(now);
  look(now);
  for (std::size_t i = 0; i < index_.size(); ++i) {
    const InstanceId id = index_[i];
    // Answers grow, and who decides a clock by streams takes silence for loss.
    const bool busy = requests_.shown(id).assigned_requests > 0 || places_[i].others.requests > 0;
    if (!watch_.hears_steps(i) && busy) tell_work(i, now);
    if (!gauged(id, now)) places_[i].others = {};
    if (!places_[i].step_reports || watch_.last_report(i) == Instant() || source(id, now) == ViewSource::StepReports)
      continue;
    // An engine that still owes us tokens is not idle, whatever it said last.
    const InstanceView& view = requests_.shown(id);
    if (view.assigned_requests > 0) requests_.lost(id);
  }
}

void ControlStrand::refresh(InstanceId instance, Instant now) {
  const std::size_t i = index_.at(instance);
  if (source_at(i, now) == ViewSource::Streams) infer(i, now);
}

void ControlStrand::infer(std::size_t i, Instant now) {
  const InstanceView& view = requests_.shown(index_[i]);
  const bool lost = view.telemetry == Telemetry::Lost;
  StepReport report = control::shown_by_streams(seen_work(i, now), *view.spec, clock_of(i), now);
  report.clock = clock_of(i);
  report.instance = index_[i];
  report.sequence = view.step.sequence;
  requests_.report(report, watch_.pace(i));
  if (lost && view.assigned_requests > 0) requests_.lost(report.instance);
}

}  // namespace wattle::gateway
