#pragma once
// The data plane: what clients may ask for, and what is wrong with what they asked.
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
  /// From now on health() says no.
  void stopping() { stopping_ = true; }
  [[nodiscard]] bool stops() const { return stopping_; }

 private:
  bool allowed(net::Exchange& exchange, std::string_view method);
  /// We have sent this request on ourselves, which would never end. True: it is answered.
  bool came_back(net::Exchange& exchange);
  /// Answers a preflight; lets browsers read what comes. True: it is answered.
  bool crossed(net::Exchange& exchange);
  /// A request on its way to a relay, and who hears how it ended; null: nobody.
  struct Incoming {
    net::Exchange& exchange;
    RequestObserver* observer = nullptr;
    std::shared_ptr<RequestEnd> record = nullptr;
  };
  /// None: it has been refused.
  std::optional<Caller> caller_of(const Incoming& in);
  void refuse(const Incoming& in, const net::ApiError& error, std::string_view extra = {});
  /// What the body asks for, if that may be asked for, and which model; none: it has been refused.
  struct Asked {
    net::CompletionRequest what;
    std::size_t model = 0;
  };
  std::optional<Asked> read(const Incoming& in, net::ApiPath path);
  [[nodiscard]] bool passes(std::string_view path) const;
  /// For routing by prefixes, where it is asked for: the session it belongs to, or else what its prompt begins with.
  void describe_prompt(const net::Exchange& exchange, const net::CompletionRequest& what, Request& request);
  /// Where somebody learns lengths: the hint, unless the request came with one, and what to learn from it with. Null
  /// where nobody does, and for several answers at once.
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
