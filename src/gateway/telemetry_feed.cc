#include "gateway/telemetry_feed.h"

#include <future>
#include <utility>

#include "net/clock.h"

namespace wattle::gateway {

namespace {
constexpr Span kTick = Span::ms(100);
}

struct TelemetryFeed::Newcomer {
  const telemetry::FpmSubscriber::Source& source;
  std::promise<Result<void>> connected;
};

TelemetryFeed::TelemetryFeed(telemetry::FpmSubscriber subscriber, Take take, std::function<void()> tick)
    : subscriber_(std::move(subscriber)), take_(std::move(take)), tick_(std::move(tick)), thread_([this] { run(); }) {}

Result<std::unique_ptr<TelemetryFeed>> TelemetryFeed::start(
    const std::vector<telemetry::FpmSubscriber::Source>& sources, Take take, std::function<void()> tick) {
  auto subscriber = telemetry::FpmSubscriber::connect(sources);
  if (!subscriber) return std::unexpected(subscriber.error());
  return std::unique_ptr<TelemetryFeed>(new TelemetryFeed(std::move(*subscriber), std::move(take), std::move(tick)));
}

TelemetryFeed::~TelemetryFeed() {
  stop_ = true;
  thread_.join();
}

void TelemetryFeed::run() {
  Instant next_tick = net::steady_now() + kTick;
  while (!stop_) {
    subscriber_.poll(next_tick - net::steady_now(), net::steady_now, take_);
    if (net::steady_now() < next_tick) continue;
    next_tick = net::steady_now() + kTick;
    tick_();
    const std::lock_guard lock(mutex_);
    drops_ = subscriber_.drops();
    // In this order: an engine that is dropped and added again waits for the second.
    for (const InstanceId leaver : std::exchange(leavers_, {})) subscriber_.drop(leaver);
    for (Newcomer* newcomer : newcomers_) newcomer->connected.set_value(subscriber_.add(newcomer->source));
    newcomers_.clear();
    sources_ = subscriber_.sources();
  }
  const std::lock_guard lock(mutex_);
  for (Newcomer* newcomer : newcomers_) newcomer->connected.set_value(external_failure("gateway", "is stopping"));
  newcomers_.clear();
}

Result<void> TelemetryFeed::add(const telemetry::FpmSubscriber::Source& source) {
  Newcomer newcomer{source, {}};
  auto connected = newcomer.connected.get_future();
  {
    const std::lock_guard lock(mutex_);
    newcomers_.push_back(&newcomer);
  }
  return connected.get();
}

void TelemetryFeed::drop(InstanceId instance) {
  const std::lock_guard lock(mutex_);
  leavers_.push_back(instance);
}

std::size_t TelemetryFeed::sources() const {
  const std::lock_guard lock(mutex_);
  return sources_;
}

telemetry::FpmDrops TelemetryFeed::drops() const {
  const std::lock_guard lock(mutex_);
  return drops_;
}

}  // namespace wattle::gateway
