#pragma once
// The workers a gateway knows: who was added, removed or taken back, what their health probes said, and whose step
// reports are listened to.
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

/// A worker and what its health probes said.
struct WorkerState {
  std::shared_ptr<const Worker> worker;
  WorkerOptions options;
  int misses = 0;
  bool up = false;
  bool admitted = false;   ///< it has been up
  bool removed = false;    ///< or starting
  bool starting = false;   ///< it has not said yet where it listens
  bool listening = false;  ///< to its step reports
  /// Which of the forms that gauges come in it answers to is being tried, or known; past the last: none.
  std::size_t gauges_form = 0;
  /// It takes requests, or will.
  [[nodiscard]] bool stays() const { return !removed || starting; }
};

class WorkerRegistry {
 public:
  /// `describe` may be null. All references outlive this; agents may be null.
  /// `lost`: an engine answers no probe; said again with each probe until it does. On the probing loop.
  WorkerRegistry(const GatewayOptions& options, ControlStrand& control, AgentLinks* agents,
                 GatewayPolicies::Describe describe, std::function<void(InstanceId)> lost);

  /// What the options' own is said by, for errors.
  [[nodiscard]] static std::string flag_of(const WorkerOptions& worker) { return "--worker " + worker.url; }
  /// Adds those of the options and listens to their step reports.
  Result<void> start();
  /// `flag`: that described it; empty: errors say which key of its description is at fault.
  Result<InstanceId> add(const WorkerOptions& stated, std::string_view flag);
  /// The worker that is at this URL, however it is written, and not leaving; none: nobody is.
  struct Standing {
    InstanceId id;
    Role role;
  };
  [[nodiscard]] std::optional<Standing> standing_at(std::string_view url);
  /// The step reports of a worker added after the start, unless they are listened to.
  Result<void> listen_to(InstanceId id);
  /// What runs there goes on to its end. It may be taken back, unless many were removed since.
  void remove(InstanceId id);
  /// It is no part of the fleet any more, for good; ignored when it was not. On the control strand only.
  void forget(InstanceId id, Instant now);
  /// Another worker that stands at that URL, however it is written; without `url` at the one where `id` was.
  [[nodiscard]] std::optional<InstanceId> other_at(InstanceId id, const std::string& url);
  /// Takes a removed one back, or one that has started: the caller has seen it alive, and the next probes judge.
  /// Without `url` where it was before. Errors: a URL that does not resolve, or none so far.
  Result<void> take_back(InstanceId id, const std::string& url);

  /// Health probes on that loop, from now on; stop_probing() before the loop ends, from another thread.
  void start_probing(net::Loop& loop);
  void stop_probing(net::Loop& loop);
  void probed(InstanceId id, bool healthy);
  void refused_connection(InstanceId id);
  /// Of an engine asked in that form; none: it does not answer to it.
  void gauged(InstanceId id, std::size_t form, const std::optional<LoadGauges>& gauges, Instant read);

  /// Of the workers that are not leaving some have the prefill role, and none computes a request alone.
  [[nodiscard]] bool all_divided() const { return all_divided_.load(std::memory_order_relaxed); }
  /// Ascending by instance id; on the control strand only.
  [[nodiscard]] const std::vector<WorkerState>& states() const { return states_; }
  /// The highest there ever was; below 0: none. On the control strand only.
  [[nodiscard]] InstanceId newest() const { return index_.newest(); }
  /// Whose energy nobody meters now, of those that are not leaving and those that still have requests. On the control
  /// strand only.
  [[nodiscard]] std::int64_t unmetered(const control::FleetLoop& core, Instant now) const;
  /// Null until some worker sends step reports.
  [[nodiscard]] const TelemetryFeed* feed() const { return feed_.get(); }
  void stop_feed() { feed_.reset(); }

 private:
  Result<GatewayPolicies::Instance> describe(WorkerOptions& worker) const;
  /// Errors: step reports are to be fetched from where no worker may stand.
  [[nodiscard]] Result<void> check_reports(const std::string& endpoint, std::string_view where) const;
  /// The worker's address, if it may be one.
  [[nodiscard]] Result<std::shared_ptr<const net::Endpoint>> address_of(const std::string& url,
                                                                        std::string_view where) const;
  /// By where it publishes its step reports, else by its URL: as `wattle agent --engine` names it.
  void name_to_agents(const WorkerOptions& worker, InstanceId id);
  Result<void> start_feed(const std::vector<telemetry::FpmSubscriber::Source>& sources);
  void set_up(control::FleetLoop& core, InstanceId id, bool up, Instant now);
  /// That is not leaving, another one than `but`, at that URL (net::normalised_url); null: nobody. On the control
  /// strand only.
  [[nodiscard]] const WorkerState* at_url(const std::string& normalised, InstanceId but = kNoInstance) const;
  void route_by_type(control::FleetLoop& core, Instant now);
  void look_at_roles();
  void probe_all();
  void read_all_gauges();

  const GatewayOptions& options_;
  ControlStrand& control_;
  AgentLinks* agents_;
  GatewayPolicies::Describe describe_;
  std::function<void(InstanceId)> lost_;
  [[nodiscard]] WorkerState* find(InstanceId id);
  std::vector<WorkerState> states_;  ///< on the control strand only, as the next
  InstanceIndex index_;              ///< of states_
  std::vector<InstanceId> unheard_;  ///< forgotten, but their reports are listened to yet
  std::unique_ptr<net::HttpClient> prober_;
  std::unique_ptr<TelemetryFeed> feed_;
  std::mutex feed_mutex_;  ///< its creation
  std::atomic<bool> all_divided_{false};
};

}  // namespace wattle::gateway
