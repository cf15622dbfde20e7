#pragma once
// Clock commands on their way to the GPUs: a thread per GPU, so that a slow driver call blocks nothing but itself.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "control/ports.h"
#include "node/gpu/gpu.h"
#include "node/keeper.h"

namespace wattle::node {

/// Whether a GPU still takes commands.
enum class GpuState : std::uint8_t {
  Controlled,
  ReadOnly,  ///< setting clocks is absent or forbidden here, or the GPU is partitioned
  Gone,
};

/// From a report to the driver's call: what our own code may take.
inline constexpr Span kOwnTarget = Span::ms(1);

struct ActuatorStats {
  std::string uuid;
  InstanceId instance;
  GpuState state = GpuState::Controlled;
  MegaHertz applied;           ///< newest lock the driver has accepted; 0 = none
  Milliwatts power_cap;        ///< newest power limit set in place of a lock; 0 = none
  std::int64_t commands = 0;   ///< received
  std::int64_t same = 0;       ///< dropped: that clock is on its way or there already
  std::int64_t coalesced = 0;  ///< overtaken by a newer one before the driver was called
  std::int64_t calls = 0;      ///< driver calls that locked
  std::int64_t retries = 0;
  std::int64_t mismatches = 0;             ///< times the GPU ran at another clock than was locked: locked again
  bool second_writer = false;              ///< so many of these within a minute that somebody else sets its clock, too
  std::int64_t unprovided = 0;             ///< put off because the keeper could not provide for release
  std::array<std::int64_t, 6> failures{};  ///< by GpuStatus
  std::int64_t clamped_up = 0;
  std::int64_t clamped_down = 0;
  Span in_call{};     ///< how long the call in progress has lasted; 0 = none
  Histogram call_ns;  ///< duration of a driver call
  Histogram command_to_applied_ns;
  /// From the arrival of what caused the command (a report, a deadline, a lease) to the lock the driver accepted, with
  /// and without the driver's call; retries count.
  Histogram report_to_applied_ns;
  Histogram report_to_applied_own_ns;
  std::int64_t own_over_target = 0;  ///< of these, longer than kOwnTarget
  /// Of the same way, the CPU time of our threads: what is left of report_to_applied_own_ns was spent waiting for a
  /// core or a lock. Retries are not in it.
  Histogram report_to_applied_cpu_ns;
  std::int64_t cpu_over_target = 0;  ///< of these, longer than kOwnTarget
};

class Actuator final : public control::ClockPort {
 public:
  struct Target {
    InstanceId instance;
    std::vector<Gpu> gpus;  ///< the whole tensor-parallel group: it runs as fast as its slowest
  };
  /// `power_caps`: GPUs that take no lock have their power limited instead (power_cap.h). `real_time`: the threads that
  /// call the driver run before ordinary ones, where that is permitted.
  Actuator(std::vector<Target> targets, std::shared_ptr<LockKeeper> keeper, bool power_caps = false,
           bool real_time = false);
  ~Actuator() override;

  /// What may cause commands has arrived: CPU time of the calling thread, which gives them, counts from here.
  void begins();
  /// Returns at once. The newest command wins. Instances that are not ours are ignored. `now`: when what caused it
  /// arrived, by steady_now().
  void command(InstanceId instance, MegaHertz clock, Instant now) override;
  /// What GPU number `gpu` (in the order of the targets) shows now. `limited`: the device has reasons of its own to run
  /// slower, asked for only where it does. A clock that has been another than the lock for half a second is a mismatch.
  /// Any thread.
  void saw(std::size_t gpu, MegaHertz clock, const std::function<bool()>& limited, Instant now);
  /// Takes all our locks off and ends the threads; those the driver does not let go within `timeout` are left to the
  /// guardian and returned by UUID. No commands afterwards.
  std::vector<std::string> release_all(Span timeout);
  [[nodiscard]] std::vector<ActuatorStats> stats() const;
  /// No driver call has been hanging for longer than `limit`.
  [[nodiscard]] bool responsive(Span limit) const;

 private:
  struct Worker;
  std::vector<std::shared_ptr<Worker>> workers_;
  Span cause_cpu_ = Span::max();  ///< thread_cpu() when begins() was called; max: never
  bool released_ = false;
};

}  // namespace wattle::node
