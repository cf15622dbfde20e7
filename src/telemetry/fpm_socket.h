#pragma once
// Forward-pass metrics over ZeroMQ PUB/SUB: three frames, an empty topic, an 8-byte big-endian sequence number, the
// message.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "telemetry/fpm.h"

namespace wattle::telemetry {

/// One thread only. Drops when a subscriber is too slow, as engines do: telemetry never holds the engine up.
class FpmPublisher {
 public:
  /// `endpoint` as ZeroMQ has it; tcp://127.0.0.1:* takes any free port. Errors: bad or taken endpoint.
  [[nodiscard]] static Result<FpmPublisher> bind(const std::string& endpoint, const std::string& worker_id);
  ~FpmPublisher();
  FpmPublisher(FpmPublisher&&) noexcept;
  FpmPublisher& operator=(FpmPublisher&&) noexcept;

  [[nodiscard]] const std::string& endpoint() const;  ///< with the port it got
  /// Publishes under the next number (the report's own sequence is not used: heartbeats count, too).
  /// `wall`: how long the step took, of one that has ended.
  void publish(const StepReport& report, Instant now, Span wall = Span());
  [[nodiscard]] std::int64_t published() const;

 private:
  struct Impl;
  explicit FpmPublisher(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// What arrived and could not be used. Never a crash, always a count.
struct FpmDrops {
  std::int64_t bad_frames = 0;  ///< not three frames of the right sizes
  std::int64_t truncated = 0;
  std::int64_t wrong_shape = 0;
  std::int64_t other_version = 0;
  std::int64_t out_of_range = 0;
  bool operator==(const FpmDrops&) const = default;
};

/// Reports of several engines on one thread. Connects in the background and reconnects by itself: an engine that is
/// not there yet is no error.
class FpmSubscriber {
 public:
  struct Source {
    std::string endpoint;
    InstanceId instance;
  };
  /// Errors: an endpoint that ZeroMQ cannot parse.
  [[nodiscard]] static Result<FpmSubscriber> connect(const std::vector<Source>& sources);
  /// One more; it takes the place of an earlier one at the same endpoint, where only one engine can be. Errors: as
  /// connect().
  [[nodiscard]] Result<void> add(const Source& source);
  void drop(InstanceId instance);
  [[nodiscard]] std::size_t sources() const;
  ~FpmSubscriber();
  FpmSubscriber(FpmSubscriber&&) noexcept;
  FpmSubscriber& operator=(FpmSubscriber&&) noexcept;

  /// Waits up to `patience` for anything, then hands over all that is there, in order per engine. The message is valid
  /// during the call. Returns early on a signal.
  void poll_messages(Span patience, const std::function<void(const FpmMessage&, InstanceId)>& take);
  /// The same as reports; `clock` is asked once a report.
  void poll(Span patience, const std::function<Instant()>& clock,
            const std::function<void(const StepReport&, Instant)>& take);
  [[nodiscard]] const FpmDrops& drops() const;

 private:
  struct Impl;
  explicit FpmSubscriber(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace wattle::telemetry
