#pragma once
// The data plane: which requests clients may send, and the errors for others.
#include <atomic>
#include <memory>
#include <string_view>

#include "gateway/callers.h"
#include "gateway/options.h"
#include "gateway/relay.h"
#include "gateway/tenants.h"
#include "gateway/workers.h"
#include "net/clock.h"

namespace wattle::gateway {

class ClientApi {
 public:
  ClientApi(const GatewayOptions& options, ControlStrand& control, const WorkerRegistry& workers, Tenants& tenants,
            GatewayMetrics& metrics)
      : options_(options),
        control_(control),
        workers_(workers),
        tenants_(tenants),
        metrics_(metrics),
        callers_(options, tenants) {}

  /// On the exchange's loop; `context` is that loop's.
  void handle(const std::shared_ptr<net::Exchange>& exchange, RelayContext& context);
  /// 200 while requests can be served.
  void health(net::Exchange& exchange);
  /// From now on health() answers 503.
  void stopping() { stopping_ = true; }
  [[nodiscard]] bool stops() const { return stopping_; }

 private:
  bool allowed(net::Exchange& exchange, std::string_view method);
  /// Answers 508 to a request that this gateway itself has sent; true: answered.
  bool came_back(net::Exchange& exchange);
  /// Answers a CORS preflight (returns true), or permits browsers to read the response that follows.
  bool crossed(net::Exchange& exchange);
  /// A request on its way to a relay, and the record of its end; null: not observed.
  struct Incoming {
    net::Exchange& exchange;
    RequestObserver* observer = nullptr;
    std::shared_ptr<RequestEnd> record = nullptr;
  };
  /// None: it has been refused and answered.
  std::optional<Caller> caller_of(const Incoming& in);
  void refuse(const Incoming& in, const net::ApiError& error, std::string_view extra = {});
  /// The request in the body and its model, if permitted; none: it has been refused and answered.
  struct Asked {
    net::CompletionRequest what;
    std::size_t model = 0;
  };
  std::optional<Asked> read(const Incoming& in, net::ApiPath path);
  [[nodiscard]] bool passes(std::string_view path) const;
  /// For routing by prefix, if a policy uses it: the request's session, or else the beginning of its prompt.
  void describe_prompt(const net::Exchange& exchange, const net::CompletionRequest& what, Request& request);
  /// If output lengths are learned: sets the predicted length unless the client states one, and returns the features to
  /// learn from. Null if they are not learned, and for requests for several answers.
  std::unique_ptr<predict::PromptFeatures> hint_length(const net::Exchange& exchange, const Asked& asked,
                                                       LengthFeed* lengths, Request& request);
  void complete(const std::shared_ptr<net::Exchange>& exchange, RelayContext& context, net::ApiPath path);
  void models(net::Exchange& exchange);
  void one_model(net::Exchange& exchange, std::string_view id);

  const GatewayOptions& options_;
  ControlStrand& control_;
  const WorkerRegistry& workers_;
  const Tenants& tenants_;
  GatewayMetrics& metrics_;
  Callers callers_;
  const Instant begun_ = net::steady_now();
  std::atomic<std::int64_t> next_id_{1};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> loop_said_{false};
};

}  // namespace wattle::gateway
