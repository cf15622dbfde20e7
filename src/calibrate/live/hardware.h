#pragma once
// The GPUs of the engine that is profiled, and the locks on their clocks.
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

/// Between two looks at what is to change.
inline constexpr Span kLook = Span::ms(5);

struct HardwareOptions {
  std::vector<std::string> gpus;  ///< by index or UUID; empty: no power is measured and no clock set
  node::KeeperOptions keeper;
  std::vector<MegaHertz> clocks;  ///< each of them must be on offer; empty: none is to be locked
  bool locks = false;             ///< clocks are to be locked
  Span settle = Span::ms(200);    ///< from a lock to steps at that clock: a transition, and the meter's last jump
};

class Hardware {
 public:
  /// Errors: no GPU of that name; a clock it does not offer; no guardian to be had.
  [[nodiscard]] static Result<std::unique_ptr<Hardware>> open(const HardwareOptions& options);

  /// Returns once every GPU has taken the lock and had time to follow it, or `stop` is set. Errors: it cannot be
  /// locked; the driver does not answer.
  [[nodiscard]] Result<void> lock(MegaHertz clock, const std::atomic<bool>& stop);
  /// GPUs that did not let go in time.
  std::vector<std::string> release();

  /// What all GPUs offer, ascending; empty: the driver does not tell.
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
