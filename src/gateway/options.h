#pragma once
// Options of a gateway: its policies, addresses and workers.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "carbon/ledger.h"
#include "control/fleet_loop.h"
#include "control/throttle.h"
#include "gateway/agent_links.h"
#include "gateway/keys.h"
#include "gateway/request_observer.h"
#include "gateway/worker.h"
#include "gateway/worker_options.h"
#include "net/address_list.h"
#include "net/client.h"
#include "net/clock.h"
#include "net/exchange.h"
#include "net/resolver.h"
#include "net/secret.h"
#include "predict/length_learner.h"
#include "predict/online/online_latency.h"

namespace wattle::gateway {

/// The policies that decide.
struct GatewayPolicies {
  control::DispatchPolicies dispatch;
  std::string queueing;  ///< name of the queue policy; empty: none
  /// A worker as policies know it.
  struct Instance {
    std::shared_ptr<const InstanceSpec> spec;      ///< its beliefs outlive the gateway
    control::Slot<policy::FrequencyPolicy> clock;  ///< null unless clocks are decided here
    predict::OnlineLatency* learner = nullptr;     ///< spec->beliefs.latency if it learns; outlives the gateway
  };
  /// Clocks are decided here, because the policy that chooses them also fills a slot of the fleet; otherwise the agents
  /// decide.
  bool hosts_clocks = false;
  /// Describes each worker, including those that join later (POST /workers); null: by its options. Called on the thread
  /// that adds the worker; may complete the options.
  using Describe = std::function<Result<Instance>(WorkerOptions&)>;
  Describe describe;
  /// Number of predictions so far outside the measured range; null: there are none. Called on the admin plane's thread,
  /// with the control strand held.
  std::function<std::int64_t()> extrapolations;
  /// Predicts output lengths and learns from finished answers; null: lengths are not predicted.
  std::shared_ptr<predict::LengthLearner> lengths = nullptr;
};

struct GatewayOptions {
  net::ServerOptions listen;  ///< data plane
  /// Separate addresses, never the public one, or Unix sockets.
  std::vector<net::ServerOptions> admin = std::vector<net::ServerOptions>(1);
  net::PeerList admin_peers;  ///< who may use such sockets
  int threads = 2;
  std::vector<std::string> models;  ///< names clients may ask for; at most control::kMostModels
  std::vector<WorkerOptions> workers;
  PdContract contract = PdContract::Nixl;
  Slo slo;  ///< the fleet's
  Service service;
  control::EmergencyOptions emergency;
  control::AnswerOptions answers;
  std::int64_t max_requests = 4096;        ///< held and in flight together; beyond, 429
  Span unready_wait = Span::s(5);          ///< how long a request waits if no engine accepts any; then 503
  Span lost_after = Span::s(2);            ///< silence after which an engine's step reports are replaced by its streams
  std::int32_t default_max_tokens = 4096;  ///< assumed cap on the output of requests that state none
  AgentLinksOptions agents;
  std::vector<carbon::SiteRates> sites = std::vector<carbon::SiteRates>(1);  ///< possible sites of workers
  std::int64_t unix_ns_at_zero = net::unix_ns_at_zero();  ///< the wall clock at Instant() when `sites` were made
  /// Round-trip times from requests' origins to this gateway, by SiteId, which clients wait in addition to what is
  /// measured here. Empty: unknown, counted as zero.
  std::vector<Span> trips;
  std::uint64_t seed = 1;
  net::ClientOptions client;
  Span health_period = Span::s(1);
  Span probe_timeout = Span::s(2);
  Span gauges_period;     ///< period of reading the gauges of engines without step reports; zero: never
  int health_misses = 2;  ///< this many failed probes in a row take a worker out of service; one success brings it back
  InstanceSpec kind;      ///< GPU and model of workers that join later, if no policy describes them
  /// The journal's problem, for /health and /metrics, and the number of records it has dropped; null: no journal.
  struct JournalState {
    std::string problem;
    std::int64_t dropped = 0;
  };
  std::function<JournalState()> journal;
  KeyRing* keys = nullptr;  ///< accepted API keys; outlives the gateway; null: keys are not required
  std::optional<net::Digest> admin_token =
      {};  ///< digest of the admin plane's token; none: no token. Not for Unix sockets
  net::AddressList worker_places;
  bool models_alike = false;              ///< its policies need workers of one kind: each worker has all models
  std::vector<std::string> cors_origins;  ///< origins whose pages may read answers in a browser; "*": all
  /// Further paths that clients may POST to; a '*' at the end matches anything.
  std::vector<std::string> pass_paths;
  bool engine_priority = false;         ///< engines order requests by vLLM's field `priority`, which the gateway sets
  std::string via = {};                 ///< this gateway's unique name in requests' Via; Gateway::start() makes it
  ObserverOptions observer = {};        ///< spans and the log of requests
  std::int64_t spare_descriptors = 64;  ///< reserved for the admin plane and files
  net::Resolver::LookUp look_up = net::resolve_endpoint;  ///< of workers' names
  bool probe_health =
      true;  ///< false: workers accept requests from the start, and only a refused connection takes them out of service
};

}  // namespace wattle::gateway
