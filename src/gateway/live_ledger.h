#pragma once
// The ledger (law 3) of a live fleet: what the agents' meters have counted is booked to the requests that were being
// served meanwhile. An adapter: all sums are carbon::Ledger's. On the control strand; time is an argument.
//
// A meter says what was drawn only afterwards. So what happens at an instance is kept, in order, until the reading that
// covers it has come; then it is replayed into the ledger at the mean power between the two readings. An outcome is
// handed on when everything it was part of has been paid for, one reading later than the request left.
//
// Who pays: decoding requests equally, from their first token to their last; a prompt for the share of steps' energy
// that goes to prompt tokens, between the requests whose prefill ended in one step by their prompts' lengths. One that
// leaves before that pays as if it had ended then. total = requests + idle + residue, exactly, and total = metered but
// for less than a milliwatt over one reading's interval.
//
// What nobody meters (no agent, before an instance's first reading, a meter that fell silent) is unknown, never 0: that
// time is counted, and requests served in it say so (Outcome::metered).
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
  /// `next` gets every record; outcomes with their energy. Both outlive this.
  LiveLedger(std::vector<carbon::SiteRates> sites, journal::Sink& next, Service service = {})
      : ledger_(std::move(sites)), next_(next), service_(std::move(service)) {}

  /// The next instance, with the next id, which counts up and never comes back; its GPUs are taken from `now` on.
  void add_instance(std::int32_t gpus, SiteId site, Instant now);
  /// What a site's intensity is known to be, and was: what is not booked yet is booked by it.
  void set_intensity(SiteId site, carbon::IntensitySeries intensity) {
    ledger_.set_intensity(site, std::move(intensity));
  }
  /// Again: its attempt before that is lost.
  void started(const Request& request, InstanceId instance, Instant at);
  /// It asks for a model other than the first. Before anything else of it.
  void asked_for(RequestId id, carbon::ModelId model) { models_[id.value()] = model; }
  /// It is taken back from the instance before it began: as if it had not been there.
  void withdrawn(RequestId id, Instant at);
  /// It is lost at its instances before its answer came, and may be started again: what it has used there it pays for
  /// as any other that leaves, beside what it uses from then on.
  void lost(RequestId id, Instant at);
  void handed_over(RequestId id, InstanceId decode);
  void prefilled(RequestId id, Instant at);    ///< its prefill instance is through with it
  void first_token(RequestId id, Instant at);  ///< and from now on it decodes
  /// Its tokens will not be seen one by one: it counts as decoding from now on, and its prompt is paid at its end.
  void unseen(RequestId id, Instant at);
  /// `meters`: as meters().
  using Charged = std::function<void(const Outcome&, const char* meters)>;
  /// What is known of a request as it leaves, before outcome().
  struct Leaving {
    TokenTally::Counted counted;
    std::string name = {};      ///< X-Request-Id of the client; empty: ours
    Charged charged = nullptr;  ///< called once its energy is known, or known to be unknown; of one that never reached
                                ///< an engine at once, with nothing else in its outcome
  };
  void leaving(RequestId id, Leaving leaving);
  /// A step begins.
  void step(InstanceId instance, std::int64_t prefill_tokens, Instant at);
  void reading(const EngineReading& reading);
  /// Gives up on meters that have been silent for long: what they owe is unknown, and their time is counted.
  void tick(Instant now);
  /// No reading of this instance will come any more: what it owes is unknown, what its requests use from now on nobody
  /// pays for, and its GPUs are somebody else's.
  void gone(InstanceId instance, Instant now);
  /// The end: whatever waits for a reading goes without.
  void close(Instant now);

  void joined(const journal::Instance& facts) override { next_.joined(facts); }
  void decision(const journal::DecisionRecord& record) override { next_.decision(record); }
  void plan(const journal::PlanRecord& record) override { next_.plan(record); }
  void outcome(const Outcome& outcome) override;
  void sample(const journal::Sample& sample) override { next_.sample(sample); }

  struct Counts {
    Picojoules metered;             ///< by the meters, since each one's first reading
    std::int64_t meter_resets = 0;  ///< an agent began to count from 0
  };
  /// That anything is kept of.
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
  /// "emulated" when any reading came from virtual GPUs, "measured", or "none" before the first.
  [[nodiscard]] const char* meters() const { return emulated_ ? "emulated" : read_ ? "measured" : "none"; }
  struct Recent {
    Outcome outcome;
    TokenTally::Counted counted;
    std::string name;
  };
  /// The newest outcomes that were handed on, the newest last.
  [[nodiscard]] std::size_t recents() const { return recent_.size(); }
  [[nodiscard]] const Recent& recent(std::size_t i) const { return recent_[(oldest_ + i) % recent_.size()]; }
  /// No reading of it has come for longer than an agent takes to be restarted. Of one that is gone: false.
  [[nodiscard]] bool is_unmetered(InstanceId instance, Instant now) const;
  /// Requests that are over, and whose energy nobody metered in full.
  [[nodiscard]] std::int64_t unmetered_requests() const { return unmetered_requests_; }

 private:
  struct Billed {
    carbon::Account account;
    Request request;
    InstanceId prefill = kNoInstance;
    InstanceId decode = kNoInstance;
    std::int64_t prompt_tokens = 1;  ///< to be computed: what it pays for, as far as that is known; 0: refused
    Leaving leaving;
    bool prefilled = false;     ///< reported, not necessarily booked
    bool decoding = false;      ///< reported
    bool sharing = false;       ///< in the ledger's decode set
    std::int32_t open = 0;      ///< events of its own that wait for a reading
    std::int32_t attempts = 0;  ///< lost ones that have not been paid for
    RequestId of{-1};           ///< a lost attempt, under a name of its own: whose
    bool again = false;         ///< its account holds what lost attempts have used
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
    bool anchored = false;           ///< readings come; else nobody meters it, and there is nothing to wait for
    bool late = false;               ///< time is booked as unmetered of which it has not been read
    Instant since;                   ///< of the newest reading, or given up since; booked up to here
    Instant read;                    ///< the newest
    Picojoules counter;              ///< then
    std::int64_t since_unix_us = 0;  ///< its start, as far as it says
    Int128 carry = 0;                ///< pJ that are no whole milliwatt over their interval: the next interval's
    std::vector<Event> events;
    std::vector<RequestId> paying;  ///< prefill has ended, to be settled with the step it ended in
    std::int32_t decoding = 0;
    std::int64_t prefill_tokens = 0;
    std::int64_t asked_tokens = 0;  ///< prompts under way, where no step reports come
    bool reports_steps = false;
  };

  void put(InstanceId instance, const Event& event);
  void book(std::size_t i, std::optional<Milliwatts> power, Instant until);
  void apply(std::size_t i, const Event& event, Instant at);
  void settle(std::size_t i, Instant at);
  void paid(RequestId id);
  void let_go(Billed& request);
  void refused(Billed& request);
  void unmetered(std::size_t i, Instant now);
  void lose(std::size_t i, Instant now);
  void read_late(std::size_t i, Picojoules drawn, Instant at);
  void prompts_under_way(InstanceId instance, std::int64_t tokens, Instant at);
  void rename(InstanceId instance, RequestId from, RequestId to);
  [[nodiscard]] Billed* find(RequestId id);
  [[nodiscard]] Billed* unfinished(RequestId id);  ///< one that has not left yet
  [[nodiscard]] Billed* at_engine(RequestId id);   ///< and is at an engine now

  carbon::Ledger ledger_;
  journal::Sink& next_;
  Service service_;
  InstanceIndex index_;
  std::vector<Meter> meters_;                     ///< of the instances that are there
  std::pmr::unsynchronized_pool_resource nodes_;  ///< of billed_: a request's is more than malloc keeps at hand
  std::pmr::unordered_map<std::int64_t, Billed> billed_{&nodes_};
  std::unordered_map<std::int64_t, carbon::ModelId> models_;  ///< of requests that have not left the ledger
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
