#include "sim/learning.h"

#include <algorithm>
#include <utility>

namespace wattle::sim {

void Measuring::begin(const engine::Replica::Run& run, const StepShape& shape, MegaHertz clock) {
  Step& step = steps_[newest_ ^= 1U];
  step.begin = run.begin_of(0);
  step.end = run.begin_of(1);
  step.sample = {clock, shape, step.end - step.begin};
  step.good = true;
}

void Measuring::clock_changed(Instant at) {
  for (Step& step : steps_) step.good = step.good && (at <= step.begin || step.end <= at);
}

void Measuring::cut_off() {
  for (Step& step : steps_) step.good = false;
}

std::optional<predict::StepSample> Measuring::take(Instant now) {
  const auto done = std::ranges::find(steps_, now, &Step::end);
  if (done == steps_.end() || !std::exchange(done->good, false)) return std::nullopt;
  return done->sample;
}

std::optional<Watched::Overrun> Watched::next(const control::Throttle& throttle, std::int64_t from) const {
  constexpr std::int64_t kRounding = 2;  // ns
  StepShape grown = shape;
  for (std::int64_t step = from; step < run.steps;) {
    grown.decode_kv_tokens = shape.decode_kv_tokens + step * shape.decode_requests;
    const Span allowed = throttle.allowed(grown, clock);
    if (allowed == Span::max()) return std::nullopt;
    const Instant due = run.begin_of(step) + allowed;
    const Instant end = run.begin_of(step + 1);
    if (due < end) return Overrun{step, due};
    const std::int64_t spare = (due - end).ns() - kRounding;
    if (run.increment == 0 && spare >= 0) return std::nullopt;
    const std::int64_t growth = (run.increment >> engine::kTimeFractionBits) + 1;  // ns a step, rounded up
    step += std::max<std::int64_t>(1, spare / growth);
  }
  return std::nullopt;
}

journal::Prediction prediction_of(std::span<const predict::OnlineLatency* const> learners) {
  journal::Prediction all;
  const auto merge = [](journal::PredictionError& into, const predict::OnlineError& e) {
    if (e.samples == 0) return;
    const auto a = static_cast<double>(into.samples);
    const auto b = static_cast<double>(e.samples);
    into.offline_ms = (a * into.offline_ms + b * e.offline_ms) / (a + b);
    into.active_ms = (a * into.active_ms + b * e.active_ms) / (a + b);
    into.samples += e.samples;
  };
  for (const auto* learner : learners) {
    merge(all.prefill, learner->since_start(true));
    merge(all.decode, learner->since_start(false));
    // A mean would hide what drift is there to show.
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

}  // namespace wattle::sim
