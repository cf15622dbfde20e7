#pragma once
// The data plane: what clients may ask for, and what is wrong with what they asked.
#include <atomic>
#include <memory>
#include <string_view>

#include "gateway/options.h"
#include "gateway/relay.h"
#include "gateway/tenants.h"
#include "gateway/workers.h"

namespace wattle::gateway {

class ClientApi {
 public:
  ClientApi(const GatewayOptions& options, ControlStrand& control, const WorkerRegistry& workers, Tenants& tenants,
            GatewayMetrics& metrics)
      : options_(options), control_(control), workers_(workers), tenants_(tenants), metrics_(metrics) {}

  /// On the exchange's loop; `context` is that loop's.
  void handle(const std::shared_ptr<net::Exchange>& exchange, RelayContext& context);
  /// 200 while requests can be served.
  void health(net::Exchange& exchange);
  /// From now on health() says no.
  void stopping() { stopping_ = true; }

 private:
  bool allowed(net::Exchange& exchange, std::string_view method);
  void complete(const std::shared_ptr<net::Exchange>& exchange, RelayContext& context, net::ApiPath path);
  void models(net::Exchange& exchange);
  void one_model(net::Exchange& exchange, std::string_view id);

  const GatewayOptions& options_;
  ControlStrand& control_;
  const WorkerRegistry& workers_;
  Tenants& tenants_;
  GatewayMetrics& metrics_;
  std::atomic<std::int64_t> next_id_{1};
  std::atomic<bool> stopping_{false};
};

}  // namespace wattle::gateway
