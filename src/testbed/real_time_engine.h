#pragma once
// The true engine (engine::Replica) at the pace of the wall clock: its steps take as long as the GPU would need, the
// GPU being one of the virtual ones when there is a board.
#include <memory>
#include <vector>

#include "engine/replica.h"
#include "net/loop.h"
#include "telemetry/fpm_socket.h"
#include "virtual_gpu/virtual_gpu.h"

namespace wattle::testbed {

struct RealTimeEngineOptions {
  Role role = Role::Colocated;
  engine::EngineOptions engine;
  std::vector<std::int32_t> gpus = {0};  ///< indices on the board: the tensor-parallel group
  /// Ended: like engines, with a heartbeat every second while idle; Starts: like a scheduler plugin, which also reports
  /// idling at once.
  StepMoment reports = StepMoment::Ended;
};

/// Everything on one loop's thread. Steps follow each other at their exact instants: a loop that wakes late delivers
/// late, but lateness does not add up.
class RealTimeEngine final : public engine::ReplicaObserver {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_token(engine::Tag tag) = 0;  ///< a token after the first
    virtual void on_event(const engine::Event& event) = 0;
  };
  struct Counts {
    std::int64_t running = 0;
    std::int64_t waiting = 0;
    double kv_usage = 0.0;  ///< 0 to 1
    std::int64_t preemptions = 0;
    std::int64_t steps = 0;
    MegaHertz clock;
    Milliwatts power;
  };

  /// `board` and `publisher` may be null. All four outlive the engine.
  RealTimeEngine(net::Loop& loop, const engine::StepModel& model, const RealTimeEngineOptions& options,
                 virtual_gpu::Board* board, telemetry::FpmPublisher* publisher, Listener& listener);
  ~RealTimeEngine() override;

  /// Begins to follow the GPU's clock and to heart-beat. On the loop.
  void start();
  [[nodiscard]] bool can_ever_fit(std::int32_t prompt_tokens, std::int32_t output_tokens) const {
    return replica_.can_ever_fit(prompt_tokens, output_tokens);
  }
  void submit(engine::Job job);
  void cancel(engine::Tag tag);
  void release(engine::Tag tag);
  [[nodiscard]] Counts counts();
  /// Of the step in progress; none: 0.
  [[nodiscard]] Span step_length() const;
  [[nodiscard]] std::int64_t blocks_total() const { return replica_.blocks_total(); }
  /// Hands the virtual GPUs back. On the loop, or after it has stopped.
  void leave();

 private:
  void step_ended(const StepReport& report) override;
  Hold step_starts(const StepReport& report) override;
  void goes_idle(InstanceId instance, Instant at) override;
  void power_changes(InstanceId instance, Instant at, Milliwatts power, std::int32_t decode_requests,
                     std::int64_t prefill_tokens, MegaHertz clock) override;
  void decode_joined(InstanceId, engine::Tag, Instant) override {}
  void decode_left(InstanceId, engine::Tag, Instant) override {}
  void prefill_settled(InstanceId, Instant, std::span<const engine::PrefillShare>) override {}
  void gaps(const engine::TokenGaps&) override {}
  void token(engine::Tag tag, Instant) override { listener_.on_token(tag); }

  void run();
  void settle(Instant at);
  /// After every step that should have ended by now, and before the next one begins.
  template <typename Change>
  void change_now(const Change& change);
  void pass_on_events();
  void arm();
  void follow_clock();
  void write_activity();
  void heartbeat();
  void publish(const StepReport& report, Span wall);

  net::Loop& loop_;
  RealTimeEngineOptions options_;
  virtual_gpu::Board* board_;
  telemetry::FpmPublisher* publisher_;
  Listener& listener_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Milliwatts power_;
  MegaHertz effective_;
  bool busy_ = false;
  bool left_ = false;
  MegaHertz commanded_;
  Instant armed_ = Instant::never();
  Instant last_report_;
  Instant began_;  ///< the step that runs
  bool running_ = false;
  engine::Replica replica_;  // last: it may call us while it is made
};

}  // namespace wattle::testbed
