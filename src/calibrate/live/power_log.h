#pragma once
// Power and clock of an engine's GPUs over time, sampled through NVML on a thread of its own.
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "node/gpu/gpu.h"
#include "node/meter.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::calibrate {

class PowerLog {
 public:
  /// All GPUs of one engine, read every `period`.
  explicit PowerLog(std::vector<node::Gpu> gpus, Span period = Span::ms(5));
  ~PowerLog();
  PowerLog(const PowerLog&) = delete;
  PowerLog& operator=(const PowerLog&) = delete;

  /// Shortest window for a mean power: NVML's counter is updated every 100 ms, and its power may be a mean over a
  /// second (meter.h).
  static constexpr Span kShortest = Span::s(1);

  /// Mean power of all GPUs together; waits briefly for a reading after `end`. None: the window is shorter than
  /// kShortest or not completely in the log, or a GPU could not be read.
  [[nodiscard]] std::optional<Milliwatts> mean_power(Instant begin, Instant end) const;
  /// Median of the readings, of the slowest GPU.
  [[nodiscard]] std::optional<MegaHertz> median_clock(Instant begin, Instant end) const;
  [[nodiscard]] std::int64_t failures() const { return failures_; }

 private:
  struct Sample {
    Instant at;
    Picojoules total;
    MegaHertz clock;
  };
  void run();

  std::vector<node::Gpu> gpus_;
  Span period_;
  std::vector<node::EnergyMeter> meters_;  ///< used by the thread only
  mutable std::mutex mutex_;
  std::vector<Sample> samples_;
  std::atomic<std::int64_t> failures_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace wattle::calibrate
