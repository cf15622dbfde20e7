#pragma once
// Sends clock commands to the GPUs: one thread per GPU, so that a slow driver call blocks only itself.
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
  ReadOnly,  ///< setting clocks is unsupported or forbidden here, or the GPU is partitioned
  Gone,      ///< the driver has lost it; it is asked again once a second
};

/// Target for our own code's time from a report to the driver's call.
inline constexpr Span kOwnTarget = Span::ms(1);

struct ActuatorStats {
  std::string uuid;
  InstanceId instance;
  GpuState state = GpuState::Controlled;
  MegaHertz applied;           ///< newest lock that the driver accepted; 0: none
  Milliwatts power_cap;        ///< newest power limit set in place of a lock; 0: none
  std::int64_t commands = 0;   ///< received
  std::int64_t same = 0;       ///< dropped: that clock is already set or on its way
  std::int64_t coalesced = 0;  ///< replaced by a newer one before the driver was called
  std::int64_t calls = 0;      ///< driver calls that locked
  std::int64_t retries = 0;
  std::int64_t mismatches = 0;  ///< times the GPU ran at a clock other than the lock: locked again
  bool second_writer = false;  ///< so many of these within a minute that another process must be setting its clock, too
  std::int64_t unprovided = 0;             ///< postponed because the keeper could not provide for release
  std::array<std::int64_t, 6> failures{};  ///< by GpuStatus
  std::int64_t clamped_up = 0;
  std::int64_t clamped_down = 0;
  Span in_call{};     ///< duration so far of the call in progress; 0: none
  Histogram call_ns;  ///< duration of a driver call
  Histogram command_to_applied_ns;
  /// From the arrival of the command's cause (a report, a deadline, a lease) to the accepted lock, with and without the
  /// driver's call; includes retries.
  Histogram report_to_applied_ns;
  Histogram report_to_applied_own_ns;
  std::int64_t own_over_target = 0;  ///< of these, longer than kOwnTarget
  /// CPU time of our threads over the same interval: the rest of report_to_applied_own_ns was spent waiting for a core
  /// or a lock. Without retries.
  Histogram report_to_applied_cpu_ns;
  std::int64_t cpu_over_target = 0;  ///< of these, longer than kOwnTarget
};

class Actuator final : public control::ClockPort {
 public:
  struct Target {
    InstanceId instance;
    std::vector<Gpu> gpus;  ///< the whole tensor-parallel group: it runs as fast as its slowest GPU
  };
  /// `power_caps`: GPUs that take no lock get a power limit instead (power_cap.h). `real_time`: the threads that call
  /// the driver have real-time priority, if permitted.
  Actuator(std::vector<Target> targets, std::shared_ptr<LockKeeper> keeper, bool power_caps = false,
           bool real_time = false);
  ~Actuator() override;

  /// A possible cause of commands has arrived: the CPU time of the calling thread, which gives them, counts from here.
  void begins();
  /// Returns at once. The newest command wins. Unknown instances are ignored. `now`: when the command's cause arrived,
  /// by steady_now().
  void command(InstanceId instance, MegaHertz clock, Instant now) override;
  /// Sets what is set once more: the guardian may have undone it. Any thread.
  void renew();
  /// The present clock of GPU number `gpu` (in the order of the targets). `limited`: whether the device has reasons of
  /// its own to run slower; called only if it does. A clock that has differed from the lock for half a second is a
  /// mismatch. Any thread.
  void saw(std::size_t gpu, MegaHertz clock, const std::function<bool()>& limited, Instant now);
  /// Releases all our locks and ends the threads. Returns the UUIDs of GPUs that the driver does not release within
  /// `timeout`; they are left to the guardian. No commands afterwards.
  std::vector<std::string> release_all(Span timeout);
  [[nodiscard]] std::vector<ActuatorStats> stats() const;
  /// Whether no driver call has been hanging for longer than `limit`.
  [[nodiscard]] bool responsive(Span limit) const;

 private:
  struct Worker;
  std::vector<std::shared_ptr<Worker>> workers_;
  Span cause_cpu_ = Span::max();  ///< thread_cpu() when begins() was called; max: never
  bool released_ = false;
};

}  // namespace wattle::node
