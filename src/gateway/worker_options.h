#pragma once
// The description of a worker: from the command line, or from a body posted to /workers. Pure.
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/instance.h"
#include "net/openai.h"

namespace wattle::gateway {

struct WorkerOptions {
  std::string url;  ///< empty: it is starting, and will report its URL
  Role role = Role::Colocated;
  std::int32_t tensor_parallel = 1;
  std::string site;                      ///< name; empty: the first
  std::vector<std::string> models = {};  ///< names from GatewayOptions::models; empty: all
  std::string pool;                      ///< name; empty: pool_id's
  PoolId pool_id{};                      ///< if no name is given: pools of a plan have none
  std::string type;  ///< name of the class that it serves; its pool has the same number; empty: not stated
  NodeId node{};
  InstanceId decode = kNoInstance;  ///< prefill: the decode worker of its pair; none: routing decides
  double weight = 1.0;
  std::string step_reports;             ///< ZeroMQ endpoint of its forward-pass metrics; empty: none
  bool load_reports = false;            ///< its load is requested with each request (ORCA), and its gauges are not read
  std::int64_t kv_capacity_tokens = 0;  ///< believed; 0: unknown
  std::optional<std::uint16_t> bootstrap_port;  ///< prefill under PdContract::Bootstrap; none: the engines' default
};

/// URL[=prefill|decode|colocated][,fpm=ENDPOINT][,load=orca][,tp=N][,bootstrap=PORT][,site=NAME][,pool=NAME][,type=CLASS]
/// [,model=NAME]...
[[nodiscard]] Result<WorkerOptions> parse_worker(std::string_view text, std::string_view where);

/// Errors: two workers with the same URL, or with the same address of step reports.
[[nodiscard]] Result<void> check_apart(std::span<const WorkerOptions> workers, std::string_view where);

/// {"url", "worker_type", "step_reports", "load": "orca", "tensor_parallel", "kv_capacity_tokens", "bootstrap_port",
/// "site", "pool", "node", "decode", "weight", "type", "model_id" or "models"}; the pool by name or id. Other keys
/// belong to other gateways' APIs and are ignored.
[[nodiscard]] std::expected<WorkerOptions, net::ApiError> read_worker(std::string_view body);

}  // namespace wattle::gateway
