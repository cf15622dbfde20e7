#pragma once
// The gateway's connection to agents: meter readings and decisions come in, clocks decided here go out under a lease.
// Has its own thread. Both sides identify engines by the address of their step reports.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/instance_work.h"
#include "control/ports.h"
#include "gateway/placed.h"
#include "journal/record.h"
#include "net/client.h"
#include "net/loop.h"
#include "net/resolver.h"
#include "predict/step_sample.h"

namespace wattle::gateway {

struct AgentLinksOptions {
  std::vector<std::string> urls;  ///< of the agents' admin planes
  std::string name = {};          ///< this gateway's unique name: an agent's engine obeys one gateway
  Span poll_period = Span::ms(50);
  Span lease = Span::s(2);                                ///< renewed every quarter of it
  net::Resolver::LookUp look_up = net::resolve_endpoint;  ///< of their names
  /// Beliefs here about the fleet, by name: an agent with other values decides by other beliefs. Names that only one
  /// side has are not compared.
  std::map<std::string, std::string> facts = {};
  /// Called on the links' own thread when an agent's facts have changed: what differs, one line each; empty: nothing
  /// differs any more.
  std::function<void(const std::string& url, const std::vector<std::string>& differences)> differ = {};
};

struct AgentAnswer;

/// An agent's reading of one engine.
struct EngineReading {
  InstanceId instance;
  Picojoules energy;  ///< since the agent's start
  Milliwatts power;
  MegaHertz clock;
  MegaHertz commanded;
  Instant at;                             ///< on our clock, accurate to half a round trip
  bool emulated = false;                  ///< by virtual GPUs
  std::int64_t meters_since_unix_us = 0;  ///< the agent's start; 0: it does not say
};

/// A step of an engine that its agent has measured.
struct MeasuredStep {
  InstanceId instance;
  predict::StepSample step;
};

class AgentLinks final : public control::ClockPort {
 public:
  struct Listener {
    std::function<void(const EngineReading&)> reading;
    std::function<void(const journal::DecisionRecord&)> decision;
    std::function<void(std::vector<MeasuredStep>)> steps = {};  ///< null: not requested
  };
  /// Resolves no names. Errors: an invalid URL.
  [[nodiscard]] static Result<void> check(const AgentLinksOptions& options);
  /// Errors: as check(). A name without an address is looked up again until it has one.
  [[nodiscard]] static Result<std::unique_ptr<AgentLinks>> make(const AgentLinksOptions& options);
  ~AgentLinks() override;  ///< stops

  /// Begins to poll; `listener` is called on the links' own thread.
  void start(Listener listener);
  /// From now on, the agents' reports about this engine concern `instance`. Returns the previous instance; kNoInstance:
  /// none. From any thread, like the next.
  InstanceId know(const std::string& engine, InstanceId instance);
  void forget(InstanceId instance);
  void command(InstanceId instance, MegaHertz clock, Instant now) override;
  /// Sent at once, and repeatedly under a lease. From any thread.
  void place(InstanceId instance, const Placed& placed);
  /// The instance's requests, for an agent that decides its clock by reports of ended steps. Sent at once when work
  /// begins or ends there, but at most every 2 ms, so that the number of messages does not depend on the rate of
  /// requests; otherwise with the next message. Any thread.
  void work(InstanceId instance, const control::InstanceWork& work);
  /// See ControlStrand's WatchOptions. Sent with the next poll.
  void handed_over(InstanceId instance, Span age, Span wait);
  /// The same for WatchOptions::finished.
  void finished(InstanceId instance, ClassId request_class, bool late);
  /// After this, no listener is called.
  void stop();

  /// Number of agents whose facts differ at present. From any thread.
  [[nodiscard]] std::int64_t differing() const { return differing_; }

 private:
  struct Link;
  class Poll;
  class Send;
  class Waking;
  AgentLinks(const AgentLinksOptions& options, std::vector<std::unique_ptr<Link>> links);
  void poll_all();
  void unreached(Link& link);
  std::set<std::string> sort_out(Link& link, const AgentAnswer& report);
  void polled(Link& link, const std::string& answer, Instant sent);
  void compare(Link& link, const std::map<std::string, std::string>& facts);
  void renew();
  /// `all`: including what may wait.
  void flush(bool all);
  void flush_now() { flush(false); }
  void flush_soon();
  void flush_after_turn();
  void flush_places();
  [[nodiscard]] InstanceId instance_of(const std::string& engine) const;

  AgentLinksOptions options_;
  Listener listener_;
  std::vector<std::unique_ptr<Link>> links_;  ///< on the loop only
  mutable std::mutex mutex_;                  ///< engines_, wanted_, dirty_
  std::map<std::string, InstanceId> engines_;
  /// Discards unsent messages about the instance. Under the mutex.
  void drop(InstanceId instance);
  struct Wanted {
    MegaHertz clock;
    bool dirty = true;
  };
  std::map<InstanceId, Wanted> wanted_;
  struct ToPlace {
    Placed placed;
    bool dirty = true;
  };
  std::map<InstanceId, ToPlace> placed_;
  struct Work {
    control::InstanceWork now;
    bool dirty = true;
    bool urgent = false;
  };
  std::map<InstanceId, Work> work_;
  struct HandedOver {
    Span age;
    Span wait;
  };
  std::map<InstanceId, std::vector<HandedOver>> handed_over_;  ///< not yet sent, the newest
  struct Finished {
    std::int64_t requests = 0, late = 0;
  };
  std::map<InstanceId, std::map<ClassId, Finished>> finished_;  ///< not yet sent
  std::atomic<std::int64_t> differing_{0};
  std::unique_ptr<net::HttpClient> client_;  ///< on the loop only
  std::atomic<bool> flushing_{false};        ///< flush_now() is queued on the loop
  std::atomic<bool> waits_for_turn_{false};  ///< until the end of some loop's turn
  std::shared_ptr<Waking> waking_;           ///< never null
  bool stopped_ = false;
  net::Loop loop_;          // its thread must end before what it uses goes; stop() ends it
  net::Resolver resolver_;  // last: what it calls uses the loop
};

}  // namespace wattle::gateway
