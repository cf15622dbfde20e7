#pragma once
// The control strand: the one place where the gateway's core runs. Events from any thread are handled one at a time, by
// whichever thread finds the strand free; what they decide is delivered to each request on its own loop.
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "live/gateway/core.h"
#include "live/transport/client.h"

namespace wattle::live {

struct Worker {
  InstanceId id;
  Role role = Role::Colocated;
  std::shared_ptr<const Endpoint> endpoint;
};

/// A request as the strand sees it. The three calls come on loop()'s thread.
class Passenger {
 public:
  virtual ~Passenger() = default;
  [[nodiscard]] virtual Loop& loop() = 0;
  virtual void on_start(const std::shared_ptr<const Worker>& worker) = 0;
  virtual void on_hand_over(const std::shared_ptr<const Worker>& decode) = 0;
  virtual void on_refuse(Refusal refusal, const char* reason) = 0;
};

class ControlStrand final : private CorePort {
 public:
  ControlStrand(control::DispatchPolicies policies, std::uint64_t seed, const CoreOptions& options,
                journal::Sink& sink);

  void arrive(const Request& request, std::shared_ptr<Passenger> passenger);
  void prefill_done(RequestId id);
  void leave(RequestId id, Fate fate, const char* reason, const TokenTally& tally);
  /// Runs `task` on the strand, in turn. From any thread; it may have run before this returns, or not yet.
  void run(std::function<void(Core&, Instant)> task);
  /// As run(), but waits until it has run. Not from within the strand.
  void run_and_wait(std::function<void(Core&, Instant)> task);
  /// Makes worker.id known for deliveries. Within run() only.
  void add_worker(std::shared_ptr<const Worker> worker) { workers_.push_back(std::move(worker)); }

 private:
  enum class Kind : std::uint8_t { Arrive, PrefillDone, Leave, Run };
  struct Event {
    Kind kind = Kind::Run;
    RequestId id{-1};
    Request request;
    std::shared_ptr<Passenger> passenger;
    Fate fate = Fate::Finished;
    const char* reason = "";
    TokenTally tally;
    std::function<void(Core&, Instant)> task;
  };
  enum class Word : std::uint8_t { Start, HandOver, Refuse };
  struct Delivery {
    Word word = Word::Start;
    std::shared_ptr<Passenger> passenger;
    std::shared_ptr<const Worker> worker;
    Refusal refusal = Refusal::Busy;
    const char* reason = "";
  };

  void post(Event event);
  void handle(Event& event);
  void say(Word word, RequestId id, InstanceId instance, Refusal refusal, const char* reason);
  static void deliver(const Delivery& delivery);

  void start(RequestId id, InstanceId instance, Instant now) override;
  void hand_over(RequestId id, InstanceId prefill, InstanceId decode, Instant now) override;
  void refuse(RequestId id, Refusal refusal, const char* reason, Instant now) override;

  std::mutex mutex_;  ///< guards queue_ and busy_ only; never held while an event is handled
  std::vector<Event> queue_;
  bool busy_ = false;

  // On the strand only.
  Instant last_now_;
  Core core_;
  std::unordered_map<std::int64_t, std::shared_ptr<Passenger>> passengers_;
  std::vector<std::shared_ptr<const Worker>> workers_;  ///< by instance id
  std::vector<Delivery> outgoing_;
};

}  // namespace wattle::live
