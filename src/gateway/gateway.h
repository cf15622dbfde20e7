#pragma once
// An OpenAI-compatible gateway for a fleet of engines. Data plane (/v1, /health) and admin plane (/metrics, /health,
// /workers) are separate listeners. The control loop makes all decisions; this moves bytes.
#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.h"
#include "control/fleet_loop.h"
#include "gateway/options.h"
#include "journal/summary.h"

namespace wattle::gateway {

class Gateway {
 public:
  /// Whether start() would refuse these, as far as that is known without resolving names, listening or describing
  /// workers. Errors: `where` is the flag, as in start().
  static Result<void> check(GatewayOptions options, const GatewayPolicies& policies);
  /// Listens on both planes before it returns. `sink` gets decisions and outcomes, one at a time, on various threads.
  static Result<std::unique_ptr<Gateway>> start(const GatewayOptions& options, GatewayPolicies policies,
                                                journal::Sink& sink);
  ~Gateway();  ///< stop() with no grace

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::uint16_t admin_port() const;  ///< the first; 0: only Unix sockets
  [[nodiscard]] journal::RequestCounts counts() const;
  /// Metered and booked so far; energy is unknown without agents. Energy that waits for a reading is included once
  /// stop() has returned.
  [[nodiscard]] journal::Consumption consumption() const;
  /// A site's known carbon intensity, past and future. From any thread; does not wait.
  void set_intensity(SiteId site, carbon::IntensitySeries intensity);
  /// Drains: refuses new connections, lets streams end for up to `grace`, or until `at_once` (called on the caller's
  /// thread) returns true.
  void stop(Span grace, const std::function<bool()>& at_once = {});

  struct Impl;

 private:
  explicit Gateway(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace wattle::gateway
