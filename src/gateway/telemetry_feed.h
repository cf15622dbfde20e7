#pragma once
// Step reports of the gateway's engines: a thread that receives them and passes them to the control strand.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "telemetry/fpm_socket.h"

namespace wattle::gateway {

class TelemetryFeed {
 public:
  using Take = std::function<void(const StepReport&, Instant)>;
  /// `take` gets each report, `tick` is called ten times per second; both on the feed's thread. Errors: an endpoint
  /// that ZeroMQ cannot parse.
  [[nodiscard]] static Result<std::unique_ptr<TelemetryFeed>> start(
      const std::vector<telemetry::FpmSubscriber::Source>& sources, Take take, std::function<void()> tick);
  ~TelemetryFeed();  ///< stops and joins
  TelemetryFeed(const TelemetryFeed&) = delete;
  TelemetryFeed& operator=(const TelemetryFeed&) = delete;

  /// Adds an engine, from any thread but the feed's own; waits until the connection is made, at most one tick. Errors:
  /// as start().
  Result<void> add(const telemetry::FpmSubscriber::Source& source);
  /// Stops listening to this instance, within a tick. From any thread.
  void drop(InstanceId instance);
  [[nodiscard]] telemetry::FpmDrops drops() const;
  [[nodiscard]] std::size_t sources() const;  ///< number of engines connected

 private:
  struct Newcomer;
  TelemetryFeed(telemetry::FpmSubscriber subscriber, Take take, std::function<void()> tick);
  void run();

  telemetry::FpmSubscriber subscriber_;  ///< used by the thread only
  Take take_;
  std::function<void()> tick_;
  mutable std::mutex mutex_;  ///< guards the members up to stop_
  std::vector<Newcomer*> newcomers_;
  std::vector<InstanceId> leavers_;
  std::size_t sources_ = 0;
  telemetry::FpmDrops drops_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace wattle::gateway
