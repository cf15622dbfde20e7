#pragma once
// The ledger (law 3) of a live fleet: the energy that agents' meters count is booked to the requests served meanwhile.
// An adapter: all sums are carbon::Ledger's. On the control strand; time is an argument.
//
// A meter reports energy only afterwards. So events at an instance are stored, in order, until the reading that covers
// them has come; then they are replayed into the ledger at the mean power between the two readings. An outcome is
// passed on when everything that it was part of has been booked, one reading after the request left.
//
// Allocation: decoding requests share equally, from their first token to their last. The share of a step's energy for
// prompt tokens is divided among the requests whose prefill ended in one step, by prompt length. A request that leaves
// before that is charged as if its prefill had ended then. total = requests + idle + residue, exactly, and total =
// metered except for less than a milliwatt over one reading's interval.
//
// Energy that is not metered (no agent, before an instance's first reading, a silent meter) is unknown, never 0: that
// time is counted, and requests served in it are flagged (Outcome::metered).
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "carbon/ledger.h"
#include "control/consumption.h"
#include "gateway/agent_links.h"
#include "gateway/token_tally.h"
#include "journal/record.h"
#include "model/instance_index.h"

namespace wattle::gateway {

class LiveLedger final : public journal::Sink {
 public:
  /// `next` gets every record, and outcomes with their energy. Both outlive this.
  LiveLedger(std::vector<carbon::SiteRates> sites, journal::Sink& next, Service service = {})
      : ledger_(std::move(sites)), next_(next), service_(std::move(service)) {}

  /// The next instance, with the next id (ids increase and are never reused); its GPUs are in use from `now` on.
  void add_instance(std::int32_t gpus, SiteId site, Instant now);
  /// A site's known intensity, past and future: used for what is not booked yet.
  void set_intensity(SiteId site, carbon::IntensitySeries intensity) {
    ledger_.set_intensity(site, std::move(intensity));
  }
  void time_of_day_is(Span ahead) { ledger_.time_of_day_is(ahead); }
  /// A second call means that the previous attempt was lost.
  void started(const Request& request, InstanceId instance, Instant at);
  /// The request's model, if it is not the first one. Before any other call about the request.
  void asked_for(RequestId id, carbon::ModelId model) { models_[id.value()] = model; }
  /// The request is taken back from the instance before it began, as if it had not been there.
  void withdrawn(RequestId id, Instant at);
  /// Its instances lost the request before its answer came, and it may be started again. What it used there is charged
  /// to it, in addition to what it uses later.
  void lost(RequestId id, Instant at);
  void handed_over(RequestId id, InstanceId decode);
  void prefilled(RequestId id, Instant at);    ///< its prefill instance has finished with it
  void first_token(RequestId id, Instant at);  ///< from now on it decodes
  /// Its tokens are not seen individually: it counts as decoding from now on, and its prompt is charged at its end.
  void unseen(RequestId id, Instant at);
  /// `meters`: as returned by meters().
  using Charged = std::function<void(const Outcome&, const char* meters)>;
  /// What is known of a request when it leaves: before outcome(), or after it if the core refused the request.
  struct Leaving {
    TokenTally::Counted counted;
    std::string name = {};      ///< the client's X-Request-Id; empty: ours
    Charged charged = nullptr;  ///< called once its energy is known, or known to be unknown
    bool booked = false;        ///< the core has refused it: outcome() came before, with its fate
  };
  void leaving(RequestId id, Leaving leaving);
  /// A step begins.
  void step(InstanceId instance, std::int64_t prefill_tokens, Instant at);
  void reading(const EngineReading& reading);
  /// Gives up on meters that have long been silent: what they owe is unknown, and their time is counted.
  void tick(Instant now);
  /// No more readings of this instance will come: what it owes is unknown, its requests' later usage is not charged,
  /// and its GPUs are no longer in use.
  void gone(InstanceId instance, Instant now);
  /// Requests have ended whose energy the next readings will tell.
  [[nodiscard]] bool waits_for_readings() const;
  /// The end: outcomes that still wait for a reading are passed on without it.
  void close(Instant now);

  void joined(const journal::Instance& facts) override { next_.joined(facts); }
  void decision(const journal::DecisionRecord& record) override { next_.decision(record); }
  void plan(const journal::PlanRecord& record) override { next_.plan(record); }
  void outcome(const Outcome& outcome) override;
  void sample(const journal::Sample& sample) override { next_.sample(sample); }

  struct Counts {
    Picojoules metered;             ///< since each meter's first reading
    std::int64_t meter_resets = 0;  ///< an agent counted from 0 again
  };
  /// Number of instances with stored data.
  [[nodiscard]] std::size_t instances_kept() const { return std::max(meters_.size(), ledger_.instances()); }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const carbon::Ledger& ledger() const { return ledger_; }
  [[nodiscard]] carbon::Totals totals() const { return ledger_.fleet(); }
  [[nodiscard]] journal::Consumption consumption(const std::function<std::string(TenantId)>& tenant_name) const {
    return control::consumption(ledger_, meters(), service_, tenant_name);
  }
  [[nodiscard]] std::vector<control::ModelUsage> by_model(
      std::span<const std::string> names, const std::function<std::string(TenantId)>& tenant_name) const {
    return control::usage_by_model(ledger_, names, service_, tenant_name);
  }
  /// "emulated" if any reading came from virtual GPUs, otherwise "measured"; "none" before the first.
  [[nodiscard]] const char* meters() const { return emulated_ ? "emulated" : read_ ? "measured" : "none"; }
  struct Recent {
    Outcome outcome;
    TokenTally::Counted counted;
    std::string name;
  };
  /// The newest outcomes passed on, newest last.
  [[nodiscard]] std::size_t recents() const { return recent_.size(); }
  [[nodiscard]] const Recent& recent(std::size_t i) const { return recent_[(oldest_ + i) % recent_.size()]; }
  /// Whether no reading of it has come for longer than an agent's restart takes. False for an instance that is gone.
  [[nodiscard]] bool is_unmetered(InstanceId instance, Instant now) const;
  /// Number of finished requests whose energy was not fully metered.
  [[nodiscard]] std::int64_t unmetered_requests() const { return unmetered_requests_; }

 private:
  struct Billed {
    carbon::Account account;
    Request request;
    InstanceId prefill = kNoInstance;
    InstanceId decode = kNoInstance;
    std::int64_t prompt_tokens = 1;  ///< to be computed, as far as known: the request's weight; 0: refused
    Leaving leaving;
    bool prefilled = false;     ///< reported, not necessarily booked
    bool decoding = false;      ///< reported
    bool sharing = false;       ///< in the ledger's decode set
    std::int32_t open = 0;      ///< number of its own events that wait for a reading
    std::int32_t attempts = 0;  ///< number of lost attempts that have not been booked
    RequestId of{-1};           ///< if this is a lost attempt, under a name of its own: the request
    bool again = false;         ///< its account includes the usage of lost attempts
    std::optional<Outcome> outcome;
  };
  enum class Kind : std::uint8_t { Step, Prefilled, Join, Leave };
  struct Event {
    Instant at;
    Kind kind = Kind::Step;
    RequestId request{-1};
    std::int64_t tokens = 0;
  };
  struct Meter {
    bool anchored = false;           ///< readings come; otherwise it is not metered, and there is nothing to wait for
    bool late = false;               ///< some time has been booked as unmetered before its reading came
    Instant since;                   ///< time of the newest reading, or since when it is given up; booked up to here
    Instant read;                    ///< time of the newest reading
    Picojoules counter;              ///< its value
    std::int64_t since_unix_us = 0;  ///< when it began to count; 0: not known
    Int128 carry = 0;  ///< pJ that are less than a milliwatt over their interval: carried to the next interval
    std::vector<Event> events;
    std::vector<RequestId> paying;  ///< requests whose prefill has ended, to be settled with the step in which it ended
    std::int32_t decoding = 0;
    std::int64_t prefill_tokens = 0;
    std::int64_t asked_tokens = 0;  ///< prompts in progress, if no step reports come
    bool reports_steps = false;
  };

  void put(InstanceId instance, const Event& event);
  void book(std::size_t i, std::optional<Milliwatts> power, Instant until);
  void apply(std::size_t i, const Event& event, Instant at);
  void settle(std::size_t i, Instant at);
  void paid(RequestId id);
  void let_go(Billed& request);
  void refused(Billed& request);
  void booked_already(RequestId id, Leaving leaving);
  void unmetered(std::size_t i, Instant now);
  void lose(std::size_t i, Instant now);
  void read_late(std::size_t i, Picojoules drawn, Instant at);
  void prompts_under_way(InstanceId instance, std::int64_t tokens, Instant at);
  void rename(InstanceId instance, RequestId from, RequestId to);
  [[nodiscard]] Billed* find(RequestId id);
  [[nodiscard]] Billed* unfinished(RequestId id);  ///< has not left yet
  [[nodiscard]] Billed* at_engine(RequestId id);   ///< has not left and is at an engine

  carbon::Ledger ledger_;
  journal::Sink& next_;
  Service service_;
  InstanceIndex index_;
  std::vector<Meter> meters_;                     ///< of the present instances
  std::pmr::unsynchronized_pool_resource nodes_;  ///< of billed_: a request's node is larger than what malloc caches
  std::pmr::unordered_map<std::int64_t, Billed> billed_{&nodes_};
  std::unordered_map<std::int64_t, carbon::ModelId> models_;  ///< of requests that are still in the ledger
  std::vector<carbon::Ledger::Share> shares_;                 ///< scratch
  Counts counts_;
  std::vector<Recent> recent_;  ///< a ring once it is full
  std::size_t oldest_ = 0;
  std::int64_t unmetered_requests_ = 0;
  std::int64_t lost_attempts_ = 0;
  bool read_ = false;
  bool emulated_ = false;
};

}  // namespace wattle::gateway
