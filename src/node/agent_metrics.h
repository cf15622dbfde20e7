#pragma once
// The agent's metrics as Prometheus text.
#include <array>
#include <string>
#include <vector>

#include "control/instance_loop.h"
#include "node/actuator.h"
#include "node/agent.h"
#include "node/host_meter.h"
#include "node/lease_table.h"
#include "telemetry/fpm_socket.h"

namespace wattle::node {

struct AgentMetrics {
  struct Instance {
    InstanceView view;
    control::TelemetryCounts counts;
    std::int64_t overruns = 0;
    std::int64_t disbelieved = 0;
  };
  /// A learning predictor.
  struct Predictor {
    predict::OnlineCounts counts;
    std::array<predict::OnlineError, 2> errors;  ///< newest window: prefill, decode
  };
  struct MeteredGpu {
    std::string uuid;
    InstanceId instance;
    Joules energy;
    Milliwatts power;
    MegaHertz clock;
    bool read = true;  ///< false: power and clock are unknown
    std::int64_t read_failures = 0;
    std::int64_t counter_resets = 0;
  };
  std::vector<Instance> instances;
  std::vector<Predictor> predictors;
  std::vector<MeteredGpu> gpus;
  std::vector<HostMeter::Domain> host;
  std::vector<ActuatorStats> actuators;
  telemetry::FpmDrops drops;
  std::int64_t unknown_instance = 0;
  LeaseTable::Counts leases;
  Histogram report_to_command_ns;
  Agent::Budget budget{};
  LockKeeper::Counts keeper;
  std::int64_t other_gpus = 0;   ///< of another kind than the policies assume
  std::int64_t log_dropped = 0;  ///< lines of the process's log that were dropped
  bool ready = false;
  bool advisory = false;

  [[nodiscard]] std::string text() const;
};

}  // namespace wattle::node
