#include "control/answer_gaps.h"

#include <algorithm>
#include <cmath>

namespace wattle::control {

namespace {

/// Answers of one token tolerate any gap; this is longer than any.
constexpr Span kAny = Span::s(3'600);
/// Share of the older sums that stays with each answer.
constexpr double kKept = 1.0 - 1.0 / 512.0;

/// Its requests, each with their mean context, as one step of decodes.
StepShape decodes(double requests, double context) {
  StepShape shape;
  shape.decode_requests = std::max(static_cast<std::int32_t>(std::lround(requests)), 1);
  shape.decode_kv_tokens = std::llround(context * shape.decode_requests);
  return shape;
}

Span step_time(const InstanceView& view, const StepShape& shape, MegaHertz clock) {
  return std::max(view.spec->beliefs.latency->step_time(shape, clock), Span());
}

MegaHertz top_of(const InstanceView& view) {
  return view.spec->clocks.empty() ? view.clock_commanded : view.spec->clocks.back();
}

}  // namespace

Slo AnswerOptions::aims(Slo stated) const {
  if (late <= 0.0 || !stated.e2e) return stated;
  const Span first = Span::from_seconds(first_token * stated.e2e->seconds());
  if (!stated.ttft || *stated.ttft > first) {
    stated.ttft = first;
    stated.ttft_of_answers = true;
  }
  if (!stated.tbt || *stated.tbt > *stated.e2e) stated.tbt = stated.e2e;
  return stated;
}

void AnswerGaps::expect(Instant arrival) {
  if (enough()) return;
  ++first_;
  ++unfinished_;
  newest_first_ = arrival;
}

void AnswerGaps::add(const Outcome& outcome, Span e2e, Span step) {
  from_ = std::min(from_, outcome.request.arrival + e2e);
  if (unfinished_ > 0 && outcome.request.arrival <= newest_first_) --unfinished_;
  const Span left = std::max(e2e - outcome.ttft(), Span());
  tolerated_.add(outcome.output_tokens > 1 ? left / (outcome.output_tokens - 1) : kAny);
  if (outcome.output_tokens < 2 || step <= Span()) return;
  gaps_s_ = kKept * gaps_s_ + outcome.tbt().seconds();
  steps_s_ = kKept * steps_s_ + step.seconds();
}

Span AnswerGaps::limit(Span fastest, Instant now) const {
  const bool all_finished = enough() && unfinished_ == 0;
  if (tolerated_.empty() || (now < from_ && !all_finished)) return kNothingKnown;
  const double prompts = steps_s_ > 0.0 ? std::max(gaps_s_ / steps_s_, 1.0) : 1.0;
  const Span least = Span::from_seconds(fastest.seconds() * prompts);
  return std::min(tolerated_.most_beyond(late_, least), kAny);
}

Span present_step(const InstanceView& view) {
  if (view.spec->beliefs.latency == nullptr) return {};
  const StepShape& now = view.step.shape;
  const double context = static_cast<double>(now.decode_kv_tokens) / std::max(now.decode_requests, 1);
  return step_time(view, decodes(now.decode_requests, context), view.clock_commanded);
}

Span fastest_step(std::span<const InstanceView> instances) {
  double requests = 0.0;
  double running = 0.0;
  double kv_tokens = 0.0;
  double all = 0.0;
  const auto decodes_there = [](const InstanceView& view) {
    return view.spec->role != Role::Prefill && view.accepting && view.spec->beliefs.latency != nullptr;
  };
  for (const InstanceView& view : instances) {
    if (!decodes_there(view)) continue;
    all += 1.0;
    requests += view.assigned_requests;
    running += view.step.shape.decode_requests;
    kv_tokens += static_cast<double>(view.step.shape.decode_kv_tokens);
  }
  if (all == 0.0) return {};
  const double context = running > 0.0 ? kv_tokens / running : 0.0;
  double sum_s = 0.0;
  for (const InstanceView& view : instances) {
    if (!decodes_there(view)) continue;
    // By Little's law faster steps have fewer requests.
    const StepShape now = decodes(requests / all, context);
    const double shorter = step_time(view, now, top_of(view)).seconds() /
                           std::max(step_time(view, now, view.clock_commanded).seconds(), 1e-9);
    sum_s += step_time(view, decodes(requests / all * std::min(shorter, 1.0), context), top_of(view)).seconds();
  }
  return Span::from_seconds(sum_s / all);
}

}  // namespace wattle::control
