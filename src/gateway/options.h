#pragma once
// What a gateway is started with: who decides, where it listens, which workers it has.
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

/// What decides.
struct GatewayPolicies {
  control::DispatchPolicies dispatch;
  std::string queueing;  ///< name of the queue policy; empty: none
  /// A worker as policies know it.
  struct Instance {
    std::shared_ptr<const InstanceSpec> spec;      ///< its beliefs outlive the gateway
    control::Slot<policy::FrequencyPolicy> clock;  ///< where it is decided here; else null
    predict::OnlineLatency* learner = nullptr;     ///< spec->beliefs.latency where it learns; outlives the gateway
  };
  /// Clocks are decided here, because the policy that chooses them fills a slot of the fleet, too; else the agents
  /// decide.
  bool hosts_clocks = false;
  /// Of each worker, those that join later (POST /workers) included; null: what its options say. Called on the thread
  /// that adds it; may complete the options.
  using Describe = std::function<Result<Instance>(WorkerOptions&)>;
  Describe describe;
  /// Predictions asked for outside the range that their belief was measured in, so far; null: nothing can be. Called on
  /// the admin plane's thread, with the control strand held.
  std::function<std::int64_t()> extrapolations;
  /// Hints at how long answers will be, and learns from them; null: nobody does.
  std::shared_ptr<predict::LengthLearner> lengths = nullptr;
};

struct GatewayOptions {
  net::ServerOptions listen;  ///< data plane
  /// Addresses of their own, never the public one, or Unix sockets.
  std::vector<net::ServerOptions> admin = std::vector<net::ServerOptions>(1);
  net::PeerList admin_peers;  ///< who may use such sockets
  int threads = 2;
  std::vector<std::string> models;  ///< names clients may ask for; at most control::kMostModels
  std::vector<WorkerOptions> workers;
  PdContract contract = PdContract::Nixl;
  Slo slo;  ///< the fleet's
  Service service;
  control::EmergencyOptions emergency;
  std::int64_t max_requests = 4096;  ///< held and in flight together; beyond, 429
  Span unready_wait = Span::s(5);    ///< for an engine to accept requests, where none does; then 503
  Span lost_after = Span::s(2);  ///< silence of an engine that has sent step reports; then its streams are looked at
  std::int32_t default_max_tokens = 4096;  ///< believed cap on the output of requests that state none
  AgentLinksOptions agents;
  std::vector<carbon::SiteRates> sites = std::vector<carbon::SiteRates>(1);  ///< where workers may stand
  std::int64_t unix_ns_at_zero = net::unix_ns_at_zero();  ///< the wall clock at Instant() when `sites` were made
  /// From a request's origin to where this gateway stands, by SiteId: what a client waits for beyond what is seen here.
  /// Empty: not known, nothing.
  std::vector<Span> trips;
  std::uint64_t seed = 1;
  net::ClientOptions client;
  Span health_period = Span::s(1);
  Span probe_timeout = Span::s(2);
  Span gauges_period;     ///< of reading what an engine without step reports says of its load; zero: never
  int health_misses = 2;  ///< so many in a row take a worker out; one success brings it back
  InstanceSpec kind;      ///< what workers that join later are, where no policy describes them: GPU and model
  /// What is wrong with the journal, for /health and /metrics, and how many records it has lost; null: there is none.
  struct JournalState {
    std::string problem;
    std::int64_t dropped = 0;
  };
  std::function<JournalState()> journal;
  KeyRing* keys = nullptr;  ///< whose requests are served; outlives the gateway; null: everybody's
  std::optional<net::Digest> admin_token =
      {};  ///< of what the admin plane wants to hear; none: it trusts its address. Not of Unix sockets
  net::AddressList worker_places;
  bool models_alike = false;              ///< its policies look at the fleet as one: each worker has all models
  std::vector<std::string> cors_origins;  ///< of pages that browsers may let read our answers; "*": all
  /// Further paths that clients may POST to; a '*' at the end stands for anything.
  std::vector<std::string> pass_paths;
  bool engine_priority = false;         ///< engines order requests by vLLM's field `priority`: it is set for them
  std::string via = {};                 ///< our name in requests' Via, unlike any other's; Gateway::start() makes it
  ObserverOptions observer = {};        ///< spans and the log of requests
  std::int64_t spare_descriptors = 64;  ///< kept free of clients and engines, for the admin plane and files
  net::Resolver::LookUp look_up = net::resolve_endpoint;  ///< of workers' names
  bool probe_health = true;  ///< false: workers accept from the start, and only a refused connection takes them out
};

}  // namespace wattle::gateway
