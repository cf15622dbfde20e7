#pragma once
// The life cycle of requests in the gateway: who is in, what became of each, exactly one fate. Time is an argument and
// there are no sockets here, so that it runs on a stepped virtual clock as well. Single-threaded.
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/dispatcher.h"
#include "gateway/token_tally.h"

namespace wattle::gateway {

/// Why a request was refused, as a client must be told: 429 or 503.
enum class Refusal : std::uint8_t {
  Busy,      ///< admission or a full queue said no
  NotReady,  ///< no instance of the role it needs accepts requests
};

/// What the core asks of the data plane.
class CorePort {
 public:
  virtual ~CorePort() = default;
  virtual void start(const Request& request, InstanceId instance, Instant now) = 0;
  virtual void hand_over(RequestId id, InstanceId prefill, InstanceId decode, Instant now) = 0;
  virtual void refuse(RequestId id, Refusal refusal, const char* reason, Instant now) = 0;
};

struct CoreOptions {
  Slo slo;
  std::int64_t max_requests = 4096;  ///< held and in flight together; beyond, Refusal::Busy
  /// Both legs of a request are bound and sent at once (SGLang); else decode is bound when prefill ends.
  bool both_legs_at_once = false;
};

/// arrived = finished + rejected + failed + cancelled + in_flight, always; held requests count as in flight here.
struct CoreCounts {
  std::int64_t arrived = 0;
  std::int64_t finished = 0;
  std::int64_t rejected = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;
  std::int64_t in_flight = 0;
  std::int64_t prompt_tokens = 0;  ///< believed, of all that arrived
  std::int64_t output_tokens = 0;  ///< of all that left
  bool operator==(const CoreCounts&) const = default;
};

class Core final : private control::DispatchPort {
 public:
  Core(std::vector<InstanceView> instances, control::DispatchPolicies policies, std::uint64_t seed,
       const CoreOptions& options, CorePort& port, journal::Sink& sink);

  /// request.id must be new, request.arrival is its time of arrival.
  void arrive(const Request& request, Instant now);
  /// Its first token came out of the step last reported of its instance.
  void first_token(RequestId id, Instant now) { dispatcher_.first_token(id, now); }
  /// The prefill leg has answered. The decode instance is bound now, through CorePort::hand_over.
  void prefill_done(RequestId id, Instant now);
  /// The request is over. Unknown ids are ignored: a cancel may cross a finish.
  void leave(RequestId id, Fate fate, const char* reason, const TokenTally& tally, Instant now);

  void report(const StepReport& report) { dispatcher_.report(report); }
  void lost(InstanceId id) { dispatcher_.lost(id); }
  InstanceId add_instance(InstanceView view, Instant now);
  void remove_instance(InstanceId id, Instant now) { dispatcher_.remove_instance(id, now); }
  void set_accepting(InstanceId id, bool accepting, Instant now);

  [[nodiscard]] const CoreCounts& counts() const { return counts_; }
  /// Null: none is asked.
  [[nodiscard]] std::shared_ptr<const predict::LengthBelief> length() const { return dispatcher_.length(); }
  [[nodiscard]] const control::DispatchCounts& dispatch_counts() const { return dispatcher_.counts(); }
  [[nodiscard]] std::span<const InstanceView> instances() const { return dispatcher_.instances(); }
  [[nodiscard]] bool ready() const;  ///< some instance, or with P/D roles one of each, accepts requests

 private:
  struct Flight {
    Request request;
    Instant dispatched;
    bool started = false;
    InstanceId prefill = kNoInstance;
    InstanceId decode = kNoInstance;
  };

  void start(const Request& request, InstanceId instance, Instant now) override;
  void hand_over(const Request& request, InstanceId prefill, InstanceId decode, Instant now) override;
  void refuse(const Request& request, const char* reason, Instant now) override;
  void close(Flight& flight, Outcome outcome, Instant now, bool dispatcher_knows);

  CoreOptions options_;
  CorePort& port_;
  journal::Sink& sink_;
  control::Dispatcher dispatcher_;
  std::unordered_map<std::int64_t, Flight> flights_;
  CoreCounts counts_;
};

}  // namespace wattle::gateway
