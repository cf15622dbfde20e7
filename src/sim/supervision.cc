#include "sim/supervision.h"

#include <algorithm>
#include <utility>

namespace wattle::sim {

/// The first step of a run about which the policy was asked. Fast-forward begins a run wherever it is asked, so both
/// ways of running measure the same steps.
void Supervision::measure(std::size_t i) {
  Subject& subject = subjects_[i];
  if (subject.learner == nullptr || !throttles_[i].asked()) return;
  const auto run = engines_[i].run();
  if (run.steps == 0) return;
  subject.measuring.begin(run, engines_[i].report(run.begin_of(0)).shape, engines_[i].locked_clock());
  agenda_.push({subject.measuring.end(), EventClass::Measured, 0, 0, 0, subject.id, Span()});
}

void Supervision::measured(std::size_t i, Instant now) {
  auto sample = subjects_[i].measuring.take(now);
  if (!sample) return;
  if (options_.sample_noise > 0.0) {
    const double factor = std::max(0.0, 1.0 + options_.sample_noise * noise_.normal());
    sample->duration = Span::from_seconds(sample->duration.seconds() * factor);
  }
  auto* learner = subjects_[i].learner;
  if (learner->add(*sample)) beliefs_changed(learner, now);
  if (!learner->refit_due()) return;
  refitting_.push_back({learner, learner->refitting()(learner->begin_refit())});
  agenda_.push({now + options_.refit_delay, EventClass::Refitted, 0, 0, 0, kNoInstance, Span()});
}

void Supervision::refitted(Instant now) {
  Refitting done = std::move(refitting_.front());
  refitting_.pop_front();
  if (done.learner->end_refit(std::move(done.model)).changed) beliefs_changed(done.learner, now);
}

void Supervision::beliefs_changed(const predict::OnlineLatency* learner, Instant now) {
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    if (subjects_[i].learner != learner) continue;
    throttles_[i].forget_hold();
    engines_.interrupt(i, now);
  }
}

void Supervision::watch(std::size_t i) {
  if (subjects_[i].overrun_slack == Span::max()) return;
  auto& w = subjects_[i].watched;
  ++w.generation;
  w.run = engines_[i].run();
  if (w.run.steps == 0) return;
  const StepReport& report = engines_[i].report(w.run.begin_of(0));
  w.shape = report.shape;
  w.sequence = report.sequence;
  w.clock = engines_[i].locked_clock();
  expect_overrun(i, 0);
}

void Supervision::expect_overrun(std::size_t i, std::int64_t from) {
  const Subject& subject = subjects_[i];
  const auto overrun = subject.watched.next(throttles_[i], from);
  if (!overrun) return;
  Event event{overrun->due, EventClass::Overrun, 0, 0, subject.watched.generation, subject.id, Span()};
  event.step = overrun->step;
  agenda_.push(event);
}

void Supervision::overrun(const Event& event) {
  const auto i = static_cast<std::size_t>(event.instance.value());
  // The run may have been cut short since and another begun, or a slower clock have come into effect in a step before.
  const auto& w = subjects_[i].watched;
  if (event.life != w.generation || engines_[i].run().steps == 0) return;
  if (engines_[i].report(event.at).sequence != w.sequence + event.step) return;
  if (throttles_[i].overrun(event.at)) {
    engines_.interrupt(i, event.at);
  } else {
    expect_overrun(i, event.step + 1);
  }
}

void Supervision::cut_off(std::size_t i) {
  subjects_[i].measuring.cut_off();
  ++subjects_[i].watched.generation;
}

journal::Prediction Supervision::prediction() const {
  std::vector<const predict::OnlineLatency*> learners;
  for (const auto& subject : subjects_) {
    if (subject.learner != nullptr && std::ranges::find(learners, subject.learner) == learners.end()) {
      learners.push_back(subject.learner);
    }
  }
  return prediction_of(learners);
}

}  // namespace wattle::sim
