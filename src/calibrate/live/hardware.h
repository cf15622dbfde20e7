#pragma once
// The GPUs of the profiled engine, and their clock locks.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "calibrate/live/power_log.h"
#include "node/actuator.h"
#include "node/gpu/gpu.h"
#include "node/keeper.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::calibrate {

/// Polling interval while waiting for a change.
inline constexpr Span kLook = Span::ms(5);

struct HardwareOptions {
  std::vector<std::string> gpus;  ///< by index or UUID; empty: neither power nor clocks
  node::KeeperOptions keeper;
  std::vector<MegaHertz> clocks;  ///< all must be supported; empty: none is locked
  bool locks = false;             ///< lock clocks
  Span settle = Span::ms(200);    ///< from a lock until steps count: clock transition and the meter's last update
};

class Hardware {
 public:
  /// Errors: unknown GPU; unsupported clock; the guardian cannot be started.
  [[nodiscard]] static Result<std::unique_ptr<Hardware>> open(const HardwareOptions& options);

  /// Returns when every GPU has accepted the lock and had time to follow it, or `stop` is set. Errors: it cannot be
  /// locked; the driver does not answer.
  [[nodiscard]] Result<void> lock(MegaHertz clock, const std::atomic<bool>& stop);
  /// Unlocks; returns the GPUs that could not be unlocked in time.
  std::vector<std::string> release();

  /// Clocks that all GPUs support, ascending; empty: unknown.
  [[nodiscard]] const std::vector<MegaHertz>& offered() const { return offered_; }
  [[nodiscard]] const PowerLog* power() const { return power_.get(); }            ///< null without GPUs
  [[nodiscard]] const std::vector<std::string>& facts() const { return facts_; }  ///< provenance lines

 private:
  Span settle_;
  std::shared_ptr<const node::GpuLibrary> library_;
  std::vector<std::string> facts_;
  std::vector<MegaHertz> offered_;
  std::unique_ptr<PowerLog> power_;
  std::shared_ptr<node::LockKeeper> keeper_;
  std::unique_ptr<node::Actuator> actuator_;
};

void pause(Span span);

}  // namespace wattle::calibrate
