#pragma once
// Energy of live requests: what the agents' meters have counted, booked by the one ledger (law 3) to the requests that
// were being served meanwhile. On the control strand; time is an argument.
//
// A meter says what was drawn only afterwards. So what happens at an instance is kept, in order, until the reading that
// covers it has come; then it is replayed into the ledger at the mean power between the two readings. An outcome is
// handed on when everything it was part of has been paid for, one reading later than the request left.
//
// Who pays: decoding requests equally, from their first token to their last; a prompt for the share of steps' energy
// that goes to prompt tokens, between the requests whose prefill ended in one step by their prompts' lengths. One that
// leaves before that pays as if it had ended then. total = requests + idle + residue, exactly, and total = metered but
// for less than a milliwatt over one reading's interval.
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "carbon/ledger.h"
#include "gateway/agent_links.h"
#include "journal/record.h"

namespace wattle::gateway {

/// What requests of one tenant, or all, have used.
struct Usage {
  std::int64_t requests = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  Picojoules energy;
  GramsCo2 carbon;
};

class LiveLedger final : public journal::Sink {
 public:
  /// `next` gets every record; outcomes with their energy. Both outlive this.
  LiveLedger(const carbon::IntensitySeries& intensity, journal::Sink& next) : ledger_(0, intensity), next_(next) {}

  void add_instance();
  void started(const Request& request, InstanceId instance, Instant at);
  void handed_over(RequestId id, InstanceId decode);
  void prefilled(RequestId id, Instant at);    ///< its prefill instance is through with it
  void first_token(RequestId id, Instant at);  ///< and from now on it decodes
  /// Its tokens will not be seen one by one: it counts as decoding from now on, and its prompt is paid at its end.
  void unseen(RequestId id, Instant at);
  /// A step begins.
  void step(InstanceId instance, std::int64_t prefill_tokens, Instant at);
  void reading(const EngineReading& reading);
  /// Gives up on meters that have been silent for long: what they owe is booked as nothing, and counted.
  void tick(Instant now);
  /// No reading of this instance will come any more: what it owes is booked as nothing, and its time no longer counts.
  void gone(InstanceId instance, Instant now);
  /// The end: whatever waits for a reading goes without.
  void close(Instant now);

  void joined(const journal::InstanceFacts& facts) override { next_.joined(facts); }
  void decision(const journal::DecisionRecord& record) override { next_.decision(record); }
  void outcome(const Outcome& outcome) override;
  void sample(const journal::Sample& sample) override { next_.sample(sample); }

  struct Counts {
    Picojoules metered;             ///< by the meters, since each one's first reading
    Span unmetered;                 ///< instance time without a reading
    std::int64_t meter_resets = 0;  ///< an agent began to count anew
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] carbon::Totals totals() const { return ledger_.fleet(); }
  [[nodiscard]] const Usage& usage() const { return usage_; }
  [[nodiscard]] const std::unordered_map<std::int32_t, Usage>& by_tenant() const { return tenants_; }
  /// The newest outcomes that were handed on.
  [[nodiscard]] const std::deque<Outcome>& recent() const { return recent_; }

 private:
  struct Rider {
    carbon::Account account;
    Request request;
    InstanceId prefill = kNoInstance;
    InstanceId decode = kNoInstance;
    bool prefilled = false;  ///< told, not necessarily paid
    bool decoding = false;   ///< told
    bool sharing = false;    ///< in the ledger's decode set
    std::int32_t open = 0;   ///< events of its own that wait for a reading
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
    bool anchored = false;
    Instant since;       ///< of the newest reading; booked up to here
    Picojoules counter;  ///< then
    Int128 carry = 0;    ///< pJ that are no whole milliwatt over their interval: the next interval's
    std::vector<Event> events;
    std::vector<RequestId> paying;  ///< prefill has ended, to be settled with the step it ended in
    std::int32_t decoding = 0;
    std::int64_t prefill_tokens = 0;
    std::int64_t asked_tokens = 0;  ///< prompts under way, where no step reports come
    bool steps_told = false;
  };

  void put(InstanceId instance, const Event& event);
  void book(std::size_t i, Milliwatts power, Instant until);
  void apply(std::size_t i, const Event& event, Instant at);
  void settle(std::size_t i, Instant at);
  void paid(RequestId id);
  void let_go(Rider& rider);
  void unmetered(std::size_t i, Instant now);
  void prompts_under_way(InstanceId instance, std::int64_t tokens, Instant at);
  [[nodiscard]] Rider* rider(RequestId id);
  [[nodiscard]] Rider* aboard(RequestId id);  ///< one that has not left yet

  carbon::Ledger ledger_;
  journal::Sink& next_;
  std::vector<Meter> meters_;  ///< by instance id
  std::unordered_map<std::int64_t, Rider> riders_;
  std::vector<carbon::Ledger::Share> shares_;  ///< scratch
  Counts counts_;
  Usage usage_;
  std::unordered_map<std::int32_t, Usage> tenants_;
  std::deque<Outcome> recent_;
};

}  // namespace wattle::gateway
