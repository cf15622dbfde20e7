#pragma once
// The workers that a gateway knows: added, removed and taken back ones, the results of their health probes, and the
// subscriptions to their step reports.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/options.h"
#include "gateway/strand.h"
#include "gateway/telemetry_feed.h"

namespace wattle::gateway {

/// A worker and the results of its health probes.
struct WorkerState {
  std::shared_ptr<const Worker> worker;
  WorkerOptions options;
  int misses = 0;
  bool up = false;
  bool admitted = false;   ///< it has been up
  bool removed = false;    ///< or it is starting
  bool starting = false;   ///< its address is not known yet
  bool listening = false;  ///< subscribed to its step reports
  bool listed = false;     ///< its /v1/models has had one of its models
  bool denied = false;     ///< it has answered 404 to a request for one, and has listed none since
  bool foreign = false;    ///< it has other models, and gets no requests
  /// The form of gauges that is being tried or, once one has been read, known for it; past the last: none.
  std::size_t gauges_form = 0;
  bool gauges_known = false;
  std::string no_address = {};  ///< why its name leads nowhere, as last logged; empty: it leads to the worker's address
  /// It takes requests, or will.
  [[nodiscard]] bool stays() const { return !removed || starting; }
};

class WorkerRegistry {
 public:
  /// An engine does not answer a probe; again with each probe until it does. `left`: it has another address now, and
  /// nothing comes from the one that this worker has.
  using Lost = std::function<void(const std::shared_ptr<const Worker>&, bool left)>;
  /// `describe` and `agents` may be null. All references outlive this. `lost`: called on any thread.
  WorkerRegistry(const GatewayOptions& options, ControlStrand& control, AgentLinks* agents,
                 GatewayPolicies::Describe describe, Lost lost);

  /// Name of a worker from the options, for errors.
  [[nodiscard]] static std::string flag_of(const WorkerOptions& worker) { return "--worker " + worker.url; }
  /// Adds the workers of the options and subscribes to their step reports.
  Result<void> start();
  /// `flag`: the flag that described it; empty: errors name the key at fault.
  Result<InstanceId> add(const WorkerOptions& stated, std::string_view flag);
  /// The worker at this URL, in any spelling, that is not leaving; none: there is none.
  struct Standing {
    InstanceId id;
    Role role;
  };
  [[nodiscard]] std::optional<Standing> standing_at(std::string_view url);
  /// Subscribes to the step reports of a worker added after the start, unless this has been done.
  Result<void> listen_to(InstanceId id);
  /// Its requests continue to their end. It may be taken back, unless many were removed since.
  void remove(InstanceId id);
  /// Removes it for good; ignored if it was not in the fleet. On the control strand only.
  void forget(InstanceId id, Instant now);
  /// The worker in service that publishes its step reports at that address.
  [[nodiscard]] std::optional<InstanceId> publishing_at(const std::string& step_reports);
  /// Another worker at that URL, in any spelling; without `url`, at the URL of `id`.
  [[nodiscard]] std::optional<InstanceId> other_at(InstanceId id, const std::string& url);
  /// Takes back a removed worker, or one that has started: the caller has seen it alive, and the next probes decide.
  /// Without `url`, at its previous one. Errors: a URL that does not resolve, or none so far.
  Result<void> take_back(InstanceId id, const std::string& url);

  /// Health probes on that loop from now on; call stop_probing() before the loop ends, from another thread.
  void start_probing(net::Loop& loop);
  void stop_probing(net::Loop& loop);
  void probed(InstanceId id, bool healthy);
  void refused_connection(InstanceId id);
  /// What an engine's /v1/models lists. One that lists other models only, and before that had one of its own or has
  /// answered a request for one with 404, gets no requests until it lists one. Engines that serve under any name may
  /// list another one.
  void lists(InstanceId id, const std::vector<std::string>& models);
  /// It has answered a request for one of its models with 404.
  void denied_model(InstanceId id);
  /// Gauges of an engine asked in that form; none: it does not answer to it.
  void gauged(InstanceId id, std::size_t form, const std::optional<LoadGauges>& gauges, Instant read);

  /// Whether some workers that are not leaving have the prefill role, and none computes a request alone.
  [[nodiscard]] bool all_divided() const { return all_divided_.load(std::memory_order_relaxed); }
  /// Ascending by instance id; on the control strand only.
  [[nodiscard]] const std::vector<WorkerState>& states() const { return states_; }
  /// The highest id ever; below 0: none. On the control strand only.
  [[nodiscard]] InstanceId newest() const { return index_.newest(); }
  /// Number of workers whose energy is not metered at present, of those that are not leaving or still have requests. On
  /// the control strand only.
  [[nodiscard]] std::int64_t unmetered(const control::FleetLoop& core, Instant now) const;
  /// Number of workers that are up and have other models. On the control strand only.
  [[nodiscard]] std::int64_t foreign() const;
  /// Null until some worker sends step reports.
  [[nodiscard]] const TelemetryFeed* feed() const { return feed_.get(); }
  void stop_feed() { feed_.reset(); }

 private:
  Result<GatewayPolicies::Instance> describe(WorkerOptions& worker) const;
  /// Errors: the address of step reports is one where workers are not permitted.
  [[nodiscard]] Result<void> check_reports(const std::string& endpoint, std::string_view where) const;
  /// The address that was found, if a worker may have it.
  [[nodiscard]] Result<std::shared_ptr<const net::Endpoint>> permitted(Result<net::Endpoint> found,
                                                                       std::string_view where) const;
  /// The name of a lost worker has been looked up again.
  void looked_up(InstanceId id, const std::string& url, Result<net::Endpoint> found);
  /// By the address of its step reports, otherwise by its URL: as in `wattle agent --engine`.
  void name_to_agents(const WorkerOptions& worker, InstanceId id);
  Result<void> start_feed(const std::vector<telemetry::FpmSubscriber::Source>& sources);
  void set_up(control::FleetLoop& core, InstanceId id, bool up, Instant now);
  /// A worker other than `but` that is not leaving, at that URL (net::normalised_url); null: none. On the control
  /// strand only.
  [[nodiscard]] const WorkerState* at_url(const std::string& normalised, InstanceId but = kNoInstance) const;
  void route_by_type(control::FleetLoop& core, Instant now);
  void look_at_roles();
  void probe_all();
  void read_all_gauges();
  void ask_models(const std::shared_ptr<const Worker>& worker);

  const GatewayOptions& options_;
  ControlStrand& control_;
  AgentLinks* agents_;
  GatewayPolicies::Describe describe_;
  Lost lost_;
  [[nodiscard]] WorkerState* find(InstanceId id);
  std::vector<WorkerState> states_;  ///< on the control strand only, like the next
  InstanceIndex index_;              ///< of states_
  std::vector<InstanceId> unheard_;  ///< forgotten, but still subscribed
  std::unique_ptr<net::HttpClient> prober_;
  std::unique_ptr<TelemetryFeed> feed_;
  std::mutex feed_mutex_;  ///< guards its creation
  std::atomic<bool> all_divided_{false};
  net::Resolver resolver_;  ///< last: what it calls uses the members above
};

}  // namespace wattle::gateway
