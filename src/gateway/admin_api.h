#pragma once
// The admin plane: /metrics, /usage, /workers, /queue, /plan, /journal, /health. On the admin loop.
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/client_api.h"
#include "gateway/plan_api.h"

namespace wattle::gateway {

class AdminApi {
 public:
  /// References outlive this; agents may be null. `connections`: of clients, open now.
  AdminApi(const GatewayOptions& options, ControlStrand& control, WorkerRegistry& workers, ClientApi& clients,
           const Tenants& tenants, GatewayMetrics& metrics, AgentLinks* agents, LiveLedger& ledger,
           std::function<std::int64_t()> connections)
      : options_(options),
        control_(control),
        workers_(workers),
        clients_(clients),
        tenants_(tenants),
        metrics_(metrics),
        agents_(agents),
        ledger_(ledger),
        connections_(std::move(connections)) {}

  /// Name of the recipe's queue policy; empty: it has none.
  void set_queueing(std::string policy) { queueing_ = std::move(policy); }
  /// As in GatewayPolicies.
  void set_extrapolations(std::function<std::int64_t()> count) { extrapolations_ = std::move(count); }
  /// May be null.
  void set_observer(const RequestObserver* observer) { observer_ = observer; }
  void set_lengths(const LengthFeed* lengths) { lengths_ = lengths; }
  /// Number of requests sent again on a new connection.
  void set_resent(std::function<std::int64_t()> count) { resent_ = std::move(count); }

  void handle(const std::shared_ptr<net::Exchange>& exchange);

 private:
  std::string metrics_text();
  /// Usage by tenant, and that of the newest requests. Energy is metered; a request's is known with the reading after
  /// its end.
  nlohmann::ordered_json usage();
  /// Usage of the newest requests with that X-Request-Id.
  void usage_of(net::Exchange& exchange, std::string_view name);
  [[nodiscard]] nlohmann::ordered_json row_of(const LiveLedger::Recent& recent) const;
  /// False: it has been refused and answered.
  bool trusted(net::Exchange& exchange);
  /// All listed workers, or at most the one with that id.
  nlohmann::ordered_json workers(std::optional<std::int32_t> only_id);
  void post_worker(net::Exchange& exchange);
  /// Whether held requests are in the queue policy's order; may be changed.
  void queue(net::Exchange& exchange);
  /// Accepts a planner's decisions for the journal.
  void post_records(net::Exchange& exchange);
  void one_worker(net::Exchange& exchange, std::string_view text);
  /// The part of a planner's plan that is carried out here.
  void plan(net::Exchange& exchange);

  const GatewayOptions& options_;
  ControlStrand& control_;
  WorkerRegistry& workers_;
  ClientApi& clients_;
  const Tenants& tenants_;
  GatewayMetrics& metrics_;
  AgentLinks* agents_;
  LiveLedger& ledger_;
  std::function<std::int64_t()> connections_;
  std::function<std::int64_t()> extrapolations_;
  std::function<std::int64_t()> resent_;
  const LengthFeed* lengths_ = nullptr;
  const RequestObserver* observer_ = nullptr;
  std::string queueing_;  ///< name of the policy; empty: none
  NewestPlanner planners_;
};

}  // namespace wattle::gateway
