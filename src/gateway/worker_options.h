#pragma once
// A worker as somebody describes it: on the command line, or in a body posted to /workers. Pure.
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
  std::string url;  ///< empty: it is starting, and will say
  Role role = Role::Colocated;
  std::int32_t tensor_parallel = 1;
  std::string site;                      ///< name; empty: the first
  std::vector<std::string> models = {};  ///< names of GatewayOptions::models that it has; empty: all
  std::string pool;                      ///< name; empty: pool_id's
  PoolId pool_id{};                      ///< where no name is given: pools of a plan have none
  std::string type;  ///< name of the class of requests it is for, whose number its pool then has; empty: not said
  NodeId node{};
  InstanceId decode = kNoInstance;  ///< prefill: the worker with which it is a pair; none: whichever routing says
  double weight = 1.0;
  std::string step_reports;                     ///< ZeroMQ endpoint of its forward-pass metrics; empty: none
  bool load_reports = false;                    ///< asked for with each request (ORCA), and no gauge of it is read
  std::int64_t kv_capacity_tokens = 0;          ///< believed; 0 = not known
  std::optional<std::uint16_t> bootstrap_port;  ///< prefill under PdContract::Bootstrap; none: the engines' default
};

/// URL[=prefill|decode|colocated][,fpm=ENDPOINT][,load=orca][,tp=N][,bootstrap=PORT][,site=NAME][,pool=NAME][,type=CLASS]
/// [,model=NAME]...
[[nodiscard]] Result<WorkerOptions> parse_worker(std::string_view text, std::string_view where);

/// Errors: two of them stand at one URL, or publish their step reports at one place.
[[nodiscard]] Result<void> check_apart(std::span<const WorkerOptions> workers, std::string_view where);

/// {"url", "worker_type", "step_reports", "load": "orca", "tensor_parallel", "kv_capacity_tokens", "bootstrap_port",
/// "site", "pool", "node", "decode", "weight", "type", "model_id" or "models"}, the pool by name or id. Other keys are
/// other gateways' and ignored.
[[nodiscard]] std::expected<WorkerOptions, net::ApiError> read_worker(std::string_view body);

}  // namespace wattle::gateway
