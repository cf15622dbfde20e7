#pragma once
// Steps as reported by the engine: its forward-pass metrics with their arrival times.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "calibrate/live/steps.h"
#include "telemetry/fpm_socket.h"

namespace wattle::calibrate {

class TelemetryTap {
 public:
  /// Errors: an endpoint that ZeroMQ cannot parse.
  [[nodiscard]] static Result<std::unique_ptr<TelemetryTap>> start(const std::string& endpoint);
  ~TelemetryTap();

  /// The longest run of steps in [begin, end] that decode exactly this many requests and no prompt.
  [[nodiscard]] std::optional<Lockstep> lockstep(Instant begin, Instant end, std::int32_t requests) const;
  /// The steps in [begin, end] that compute only prompts.
  [[nodiscard]] std::vector<PromptStep> prompt_steps(Instant begin, Instant end) const;
  [[nodiscard]] std::int64_t received() const;

 private:
  /// One message. Engines report a step when it starts (our plugin) or when it has ended, with its duration (SGLang,
  /// vLLM).
  struct Observed {
    Instant at;
    bool at_start = false;
    Span wall;
    StepShape shape;
  };
  explicit TelemetryTap(telemetry::FpmSubscriber subscriber);
  void run();

  telemetry::FpmSubscriber subscriber_;
  mutable std::mutex mutex_;
  std::vector<Observed> observed_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace wattle::calibrate
