#include "testbed/real_time_engine.h"

#include <algorithm>

#include "net/clock.h"

namespace wattle::testbed {

namespace {

using net::steady_now;

/// How soon a new clock is noticed in the middle of a step.
constexpr Span kClockPeriod = Span::ms(5);
/// If we die, the GPU is idle again this much later.
constexpr Span kLease = Span::ms(500);
constexpr Span kRenewal = Span::ms(100);
/// SGLang's heartbeat while there is nothing to do.
constexpr Span kHeartbeat = Span::s(1);

engine::ReplicaOptions replica_options(const RealTimeEngineOptions& options, const engine::StepModel& model) {
  engine::ReplicaOptions r;
  r.id = InstanceId(0);
  r.role = options.role;
  r.engine = options.engine;
  r.delays = {Span(), Span()};  // the virtual GPU has them
  r.initial_clock = model.gpu().clock_max;
  r.fast_forward = false;
  r.per_token = true;
  return r;
}

}  // namespace

RealTimeEngine::RealTimeEngine(net::Loop& loop, const engine::StepModel& model, const RealTimeEngineOptions& options,
                               virtual_gpu::Board* board, telemetry::FpmPublisher* publisher, Listener& listener)
    : loop_(loop),
      options_(options),
      board_(board),
      publisher_(publisher),
      listener_(listener),
      power_(model.idle_power(model.gpu().clock_max)),
      effective_(model.gpu().clock_max),
      commanded_(model.gpu().clock_max),
      replica_(model, replica_options(options, model), *this) {}

RealTimeEngine::~RealTimeEngine() {
  *alive_ = false;
  leave();
}

void RealTimeEngine::start() {
  const auto every = [this](Span period, void (RealTimeEngine::*what)()) {
    loop_.every(period, [this, what, alive = alive_] {
      if (*alive && !left_) (this->*what)();
    });
  };
  running_ = true;
  if (board_ != nullptr) {
    every(kClockPeriod, &RealTimeEngine::run);
    every(kRenewal, &RealTimeEngine::write_activity);
  }
  every(kHeartbeat, &RealTimeEngine::heartbeat);
  write_activity();
  run();
}

void RealTimeEngine::follow_clock() {
  if (board_ == nullptr) return;
  MegaHertz clock = board_->clock(options_.gpus.front()).ceiling;
  for (const std::int32_t gpu : options_.gpus) clock = std::min(clock, board_->clock(gpu).ceiling);
  if (clock == commanded_) return;
  commanded_ = clock;
  const Instant now = net::steady_now();
  replica_.command_clock(clock, now);
  settle(now);
}

void RealTimeEngine::settle(Instant at) {
  replica_.advance(at);
  pass_on_events();
  if (!replica_.wants_start()) return;
  replica_.start_step(at);
  pass_on_events();
}

void RealTimeEngine::pass_on_events() {
  // A listener may submit, cancel or release, which adds events: take them out before looking at them.
  while (!replica_.events().empty()) {
    std::vector<engine::Event> events;
    events.swap(replica_.events());
    for (const auto& event : events) listener_.on_event(event);
  }
}

void RealTimeEngine::run() {
  if (!running_) return;
  const Instant now = net::steady_now();
  while (replica_.next_wake() <= now) settle(replica_.next_wake());
  follow_clock();
  settle(std::max(now, Instant()));
  arm();
}

void RealTimeEngine::arm() {
  const Instant wake = replica_.next_wake();
  if (wake >= armed_) return;  // a timer that fires earlier arms the next
  armed_ = wake;
  loop_.after(std::max(Span(), wake - net::steady_now()), [this, wake, alive = alive_] {
    if (!*alive) return;
    if (armed_ == wake) armed_ = Instant::never();
    run();
  });
}

template <typename Change>
void RealTimeEngine::change_now(const Change& change) {
  run();
  const Instant now = net::steady_now();
  settle(now);
  change(now);
  settle(now);
  arm();
}

void RealTimeEngine::submit(engine::Job job) {
  change_now([&](Instant now) { replica_.submit(job, now); });
}
void RealTimeEngine::cancel(engine::Tag tag) {
  change_now([&](Instant now) { replica_.cancel(tag, now); });
}
void RealTimeEngine::release(engine::Tag tag) {
  change_now([&](Instant now) { replica_.release(tag, now); });
}

RealTimeEngine::Counts RealTimeEngine::counts() {
  const StepReport report = replica_.report(net::steady_now());
  const auto total = static_cast<double>(replica_.blocks_total());
  return {replica_.requests_held() - report.waiting_requests,
          report.waiting_requests,
          1.0 - static_cast<double>(replica_.blocks_free()) / total,
          replica_.preemptions(),
          replica_.iterations(),
          effective_,
          power_};
}

Span RealTimeEngine::step_length() const { return replica_.step_length(net::steady_now()); }

void RealTimeEngine::leave() {
  if (left_) return;
  left_ = true;
  if (board_ == nullptr) return;
  for (const std::int32_t gpu : options_.gpus) board_->release(gpu);
}

void RealTimeEngine::step_ended(const StepReport& report) {
  if (options_.reports == StepMoment::Ended) publish(report, report.start - began_);
}

Hold RealTimeEngine::step_starts(const StepReport& report) {
  busy_ = true;
  began_ = report.start;
  if (options_.reports == StepMoment::Starts) publish(report, Span());
  return Hold{};
}

void RealTimeEngine::publish(const StepReport& report, Span wall) {
  if (publisher_ == nullptr) return;
  last_report_ = net::steady_now();
  StepReport stamped = report;
  stamped.clock = replica_.locked_clock();
  publisher_->publish(stamped, std::max(last_report_, report.start), wall);
}

void RealTimeEngine::goes_idle(InstanceId, Instant at) {
  busy_ = false;
  if (options_.reports == StepMoment::Starts) {
    last_report_ = at - kHeartbeat;  // at once
    heartbeat();
    return;
  }
  loop_.after(kHeartbeat, [this, alive = alive_] {
    if (*alive && !left_) heartbeat();
  });
}

/// Unless something was reported within the last period.
void RealTimeEngine::heartbeat() {
  const Instant now = net::steady_now();
  if (publisher_ == nullptr || busy_ || now - last_report_ < kHeartbeat * 9 / 10) return;
  last_report_ = now;
  StepReport idle;
  idle.moment = options_.reports;
  idle.start = last_report_;
  idle.clock = replica_.locked_clock();
  publisher_->publish(idle, last_report_);
}

void RealTimeEngine::power_changes(InstanceId, Instant, Milliwatts power, std::int32_t decode_requests,
                                   std::int64_t prefill_tokens, MegaHertz clock) {
  power_ = power;
  effective_ = clock;
  busy_ = decode_requests > 0 || prefill_tokens > 0;
  write_activity();
}

void RealTimeEngine::write_activity() {
  if (board_ == nullptr || left_) return;
  const auto n = static_cast<std::int64_t>(options_.gpus.size());
  for (const std::int32_t gpu : options_.gpus) {
    board_->set_activity(gpu, Milliwatts(power_.value() / n), effective_, busy_ ? 100 : 0, kLease);
  }
}

}  // namespace wattle::testbed
