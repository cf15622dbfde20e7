#include "calibrate/live/telemetry_tap.h"

#include <algorithm>
#include <cmath>

#include "net/clock.h"
#include "predict/step_sample.h"

namespace wattle::calibrate {

namespace {

/// Tokens before a step's prompts, if all prompts are alike (StepShape::prefill_context_tokens).
std::int64_t context_of(const StepShape& shape) {
  const auto tokens = static_cast<double>(shape.prefill_tokens);
  const auto attended = static_cast<double>(shape.prefill_context_tokens) * shape.prefill_requests / tokens;
  return std::max<std::int64_t>(0, std::llround(attended - tokens / 2));
}

}  // namespace

Result<std::unique_ptr<TelemetryTap>> TelemetryTap::start(const std::string& endpoint) {
  auto subscriber = telemetry::FpmSubscriber::connect({{endpoint, InstanceId(0)}});
  if (!subscriber) return std::unexpected(subscriber.error());
  return std::unique_ptr<TelemetryTap>(new TelemetryTap(std::move(*subscriber)));
}

TelemetryTap::TelemetryTap(telemetry::FpmSubscriber subscriber)
    : subscriber_(std::move(subscriber)), thread_([this] { run(); }) {}

TelemetryTap::~TelemetryTap() {
  stop_ = true;
  thread_.join();
}

void TelemetryTap::run() {
  while (!stop_) {
    subscriber_.poll_messages(Span::ms(50), [this](const telemetry::FpmMessage& m, InstanceId) {
      Observed observed;
      observed.at = net::steady_now();
      observed.at_start = m.extra.at_start.value_or(false);
      observed.wall = Span::from_seconds(std::clamp(m.wall_time_s, 0.0, 3600.0));
      observed.shape = telemetry::to_step_report(m, InstanceId(0), observed.at).shape;
      const std::lock_guard guard(mutex_);
      observed_.push_back(observed);
    });
  }
}

std::int64_t TelemetryTap::received() const {
  const std::lock_guard guard(mutex_);
  return std::ssize(observed_);
}

std::optional<Lockstep> TelemetryTap::lockstep(Instant begin, Instant end, std::int32_t requests) const {
  const std::lock_guard guard(mutex_);
  std::optional<Lockstep> longest;
  for (std::size_t i = 0; i < observed_.size();) {
    const auto same = [&](const Observed& t) {
      return t.at >= begin && t.at <= end && t.shape.decode_requests == requests && t.shape.prefill_tokens == 0;
    };
    std::size_t j = i;
    while (j < observed_.size() && same(observed_[j])) ++j;
    if (j == i) {
      ++i;
      continue;
    }
    // Reported at its start, a step ends with the next message; reported at its end, it began with the one before.
    const bool at_start = observed_[i].at_start;
    Lockstep run;
    run.requests = requests;
    run.kv_first = observed_[i].shape.decode_kv_tokens;
    if (!at_start && i > 0) run.at.push_back(observed_[i - 1].at);
    if (!at_start && i == 0) run.kv_first += requests;  // its begin was not seen: drop that step
    for (std::size_t k = i; k < j; ++k) run.at.push_back(observed_[k].at);
    if (at_start && j < observed_.size()) run.at.push_back(observed_[j].at);
    if (run.at.size() >= 2 && (!longest || run.at.size() > longest->at.size())) longest = std::move(run);
    i = j;
  }
  return longest;
}

std::vector<PromptStep> TelemetryTap::prompt_steps(Instant begin, Instant end) const {
  const std::lock_guard guard(mutex_);
  std::vector<PromptStep> steps;
  for (std::size_t i = 0; i < observed_.size(); ++i) {
    const Observed& t = observed_[i];
    if (t.at < begin || t.at > end || !predict::pure_prefill(t.shape)) continue;
    PromptStep step{t.at - t.wall, t.at, t.shape.prefill_requests, t.shape.prefill_tokens, context_of(t.shape)};
    if (t.at_start) {
      if (i + 1 == observed_.size()) break;
      step.begin = t.at;
      step.end = observed_[i + 1].at;
    }
    if (step.begin < step.end) steps.push_back(step);
  }
  return steps;
}

}  // namespace wattle::calibrate
