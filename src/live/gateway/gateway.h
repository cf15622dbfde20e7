#pragma once
// An OpenAI-compatible gateway over a fleet of engines. Data plane (/v1, /health) and admin plane (/metrics, /health,
// /workers) are separate listeners. Every decision is the control core's (core.h); here bytes are moved.
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/dispatcher.h"
#include "live/gateway/core.h"
#include "live/transport/client.h"
#include "live/transport/server.h"

namespace wattle::live {

struct WorkerOptions {
  std::string url;
  Role role = Role::Colocated;
  std::int32_t tensor_parallel = 1;
  double weight = 1.0;
};

struct GatewayOptions {
  ServerOptions listen;  ///< data plane
  ServerOptions admin;   ///< its own address: never the public one
  int threads = 2;
  std::vector<std::string> models;  ///< names clients may ask for
  std::vector<WorkerOptions> workers;
  CoreOptions core;
  std::uint64_t seed = 1;
  ClientOptions client;
  Span health_period = Span::s(1);
  int health_misses = 2;     ///< so many in a row take a worker out; one success brings it back
  bool probe_health = true;  ///< false: workers accept from the start, and only a refused connection takes them out
};

/// "http://host:port" or "http://host:port=prefill|decode|colocated".
Result<WorkerOptions> parse_worker(std::string_view text, std::string_view where);

class Gateway {
 public:
  /// Listens on both planes before it returns. `sink` gets decisions and outcomes, one at a time, on changing threads.
  static Result<std::unique_ptr<Gateway>> start(const GatewayOptions& options, control::DispatchPolicies policies,
                                                journal::Sink& sink);
  ~Gateway();  ///< stop() with no grace

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::uint16_t admin_port() const;
  [[nodiscard]] CoreCounts counts() const;
  /// Engine step reports, for policies that look at them. Any thread.
  void report(const StepReport& report);
  /// Drains: refuses new connections, lets streams end for up to `grace`.
  void stop(Span grace);

  struct Impl;

 private:
  explicit Gateway(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace wattle::live
