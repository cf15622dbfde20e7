#pragma once
// The simulated truth of one engine instance (a TP group): continuous batching over paged KV, one step at a time or
// many at once.
//
// Validity: scheduling follows vLLM V1 (FCFS, decodes first, chunked prefill within a token budget, watermark on
// admission, preemption of the newest request by recompute, prefix caching: prefix_cache.h). Speculative decoding: KV
// grows by the accepted tokens, without room for drafts. LoRA is not modelled.
//
// Exactness: all times are fixed point (2^-20 ns). A run of n pure-decode steps is a closed form, so fast_forward gives
// the same events, at the same nanosecond, as running step by step (INV-6: src/sim/simulation_test.cc).
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engine/decode_set.h"
#include "engine/job.h"
#include "engine/kv_blocks.h"
#include "engine/options.h"
#include "engine/prompts.h"
#include "engine/replica_observer.h"
#include "engine/slots.h"
#include "engine/step_model.h"
#include "engine/step_run.h"
#include "model/decision.h"
#include "model/instance.h"

namespace wattle::engine {

struct ReplicaOptions {
  InstanceId id;
  Role role = Role::Colocated;
  EngineOptions engine;
  ClockDelays delays;
  MegaHertz initial_clock;
  Instant started;  ///< it draws idle power from this time on
  bool fast_forward = true;
  bool per_token = false;     ///< call ReplicaObserver::token; implies no fast-forward
  bool ended_reports = true;  ///< call ReplicaObserver::step_ended and keep last_ended()
};

class Replica {
 public:
  Replica(const StepModel& model, const ReplicaOptions& options, ReplicaObserver& observer);

  /// Whether a request of this size could ever run here, alone. (A prefill instance keeps only the prompt.)
  [[nodiscard]] bool can_ever_fit(std::int32_t prompt_tokens, std::int32_t output_tokens) const;

  /// Queue a request. Precondition: can_ever_fit, advance(now) done.
  void submit(const Job& job, Instant now);
  /// The KV of a request whose prefill ended here has been transferred, or is not needed.
  void release(Tag tag, Instant now);
  /// Take back a waiting request of which nothing was computed. False: there is no such request. No event follows.
  bool withdraw(Tag tag, Instant now);
  /// Drop a request in any state; a Cancelled event follows. False if unknown or already cancelled.
  bool cancel(Tag tag, Instant now);
  /// Everything in the instance is lost; returns the tags of all its requests. It draws no power until revived.
  std::vector<Tag> kill(Instant now);
  void revive(Instant now);
  /// From now on requests have this share less of the KV cache, as far as it is free: another engine is loading beside
  /// it.
  void squeeze(double share, Instant now);
  [[nodiscard]] bool dead() const { return dead_; }

  /// Lock the clock: effective after the call and the transition. Commands take effect in order.
  void command_clock(MegaHertz clock, Instant now);
  /// The GPUs are too hot, or short of power: until the next call they run at no more than this clock, whatever they
  /// are locked to. None: no limit.
  void limit_clock(std::optional<MegaHertz> most, Instant now);

  /// When advance() must next be called; never() when idle and settled.
  [[nodiscard]] Instant next_wake() const;
  /// Process everything due up to and including `now`, except starting the next step: the driver first handles
  /// events(), which may submit here, then calls start_step().
  void advance(Instant now);
  /// True when no step is running but there is work, or the last one has just left.
  [[nodiscard]] bool wants_start() const { return !busy_ && !dead_ && (has_work() || !idle_announced_); }
  /// Starts the next step, or goes idle.
  void start_step(Instant now);
  /// The same; `taken_over` gets the event of each request that the step takes over from a prefill instance (no other
  /// events occur when a step begins). They are then not in events().
  template <typename F>
  void start_step(Instant now, F&& taken_over) {
    const std::size_t before = events_.size();
    start_step(now);
    for (std::size_t e = before; e < events_.size(); ++e) taken_over(events_[e]);
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(before), events_.end());
  }

  /// The run in progress; steps 0: none.
  using Run = StepRun;
  [[nodiscard]] const Run& run() const { return busy_ ? run_ : kNoRun; }
  /// Total duration of the step in progress at `now`; zero when idle.
  [[nodiscard]] Span step_length(Instant now) const;
  /// A decision has changed: the run in progress ends with its present step. The next wake may be earlier.
  void interrupt(Instant now) { interrupt_run(now); }

  /// Events since the last clear, in time order.
  std::vector<Event>& events() { return events_; }

  /// The report of the step in progress at `now` (or of becoming idle): exactly what a live engine has reported by
  /// then.
  [[nodiscard]] const StepReport& report(Instant now);
  /// The report of the newest step that has ended by `now` and was reported, or would have been without fast-forward;
  /// sequence -1: none since it was started or revived.
  [[nodiscard]] const StepReport& last_ended(Instant now);

  [[nodiscard]] Milliwatts power() const { return power_; }
  [[nodiscard]] MegaHertz locked_clock() const { return locked_; }
  [[nodiscard]] MegaHertz effective_clock() const { return effective_clock_; }
  [[nodiscard]] std::int64_t iterations() const { return iterations_; }
  [[nodiscard]] std::int64_t blocks_total() const { return kv_.total(); }
  [[nodiscard]] std::int64_t blocks_free() const { return kv_.free(); }
  /// Tokens after first ones, as of the last report().
  [[nodiscard]] std::int64_t tokens() const { return decode_.tokens(); }
  /// Sum of the gaps before tokens().
  [[nodiscard]] Span token_gaps() const { return decode_.token_gaps(); }
  [[nodiscard]] std::int64_t preemptions() const { return preemptions_; }
  [[nodiscard]] std::int64_t kv_capacity_tokens() const { return kv_.capacity_tokens(); }
  [[nodiscard]] std::int64_t requests_held() const { return slots_.held(); }
  /// Tokens of this request's prompt, whose KV another engine has, that are cached here and need not be transferred.
  [[nodiscard]] std::int64_t cached_tokens(const Job& job) const;

  /// INV-3, INV-4: recomputes block, KV and membership totals from the slots and aborts on any difference.
  void check_invariants() const;

 private:
  [[nodiscard]] bool has_work() const { return decode_.size() > 0 || !prompts_.computing().empty() || can_admit_; }

  [[nodiscard]] std::int32_t running() const {
    return decode_.size() + static_cast<std::int32_t>(prompts_.computing().size());
  }
  /// Blocks that hold the request up to its last token.
  [[nodiscard]] std::int64_t final_blocks(std::int32_t prompt_tokens, std::int32_t output_tokens) const;
  /// Whether it arrived before the next step was composed; `idle`: nothing runs before that step.
  [[nodiscard]] bool in_time(const Slot& slot, bool idle) const {
    return !options_.engine.async_scheduling || idle || slot.first_step <= iterations_;
  }
  [[nodiscard]] bool fits_now(const Slot& slot) const;
  void update_admission();
  /// Whether the request's blocks may be shared.
  [[nodiscard]] bool caches(const Job& job) const { return options_.engine.prefix_caching && job.content != nullptr; }
  [[nodiscard]] BlockKeys keys_of(const Job& job) const { return {job, options_.engine.block_size}; }
  /// The part of a waiting request that is cached, less what must be computed: at least its last token.
  [[nodiscard]] KvBlocks::Prefix cached_prefix(const Slot& slot) const;
  [[nodiscard]] std::int64_t resident_tokens() const {
    return decode_.kv_tokens() + kv_tokens_prefill_ - kv_.shared_tokens();
  }
  void give_back(Slot& slot);
  void admit(SlotIndex index, Instant at);
  void schedule_prefill(std::int64_t budget);
  /// Whether this step leaves the waiting prompts where they are (EngineOptions::batch_wait_steps).
  [[nodiscard]] bool waits_for_more(bool idle);
  /// Puts part of its prompt into the step; returns the number of tokens.
  std::int64_t schedule_chunk(SlotIndex index, std::int64_t budget);
  void preempt_newest();
  void make_room();
  void join_decode(SlotIndex index, Instant at);
  void leave_decode(SlotIndex index, Instant at);

  struct Cost {
    StepRun run;  ///< one step; for decodes alone the increment gives the following ones
    Milliwatts power;
    MegaHertz effective_clock;
    std::int64_t kv_below = 0;  ///< valid while the KV tokens are below
  };
  /// Cost of a step of the present shape, begun at `start`, at the present clock.
  [[nodiscard]] Cost cost(Int128 start) const;
  /// How many steps like the first may be run without checking anything.
  [[nodiscard]] std::int64_t steps_ahead(const Cost& of, const Hold& hold);
  void apply_steps(std::int64_t steps);
  /// Tokens that a decoding request computes in a step.
  [[nodiscard]] std::int32_t verified() const { return 1 + options_.engine.speculative_tokens; }
  /// Blocks that the next step may need for decoding requests.
  [[nodiscard]] std::int64_t growth() const {
    return verified() == 1 ? decode_.blocks_needed(1) : decode_.blocks_for(slots_, verified(), kv_);
  }
  /// Determines which drafts of the step just applied are accepted.
  void accept_drafts(Instant at);
  void finish_run(Instant at);
  void note_ended(Instant at);
  void note_before_last();
  void end_prefill_part(Instant at);
  /// A prompt has been computed: produces its request's first token and moves the request on.
  void end_prompt(SlotIndex index, Instant at);
  void pop_finished(Instant at);
  /// Updates the counters to the step in progress at `now` and lets the run end with that step.
  void interrupt_run(Instant now);
  void catch_up(Instant now);

  void free_slot(SlotIndex index);
  void drop(SlotIndex index, Instant at);
  void emit(EventKind kind, const Slot& slot, Instant at);
  void settle_shares(Instant at);
  void lock(MegaHertz clock, Instant at);
  void change_clock(MegaHertz clock, Instant at);
  void set_power(Milliwatts power, MegaHertz effective, Instant at);
  void go_idle(Instant at);

  static constexpr Run kNoRun{};

  const StepModel& model_;
  ReplicaOptions options_;
  ReplicaObserver& observer_;

  Slots slots_;
  KvBlocks kv_;
  Prompts prompts_;
  DecodeSet decode_;
  std::int64_t kv_tokens_prefill_ = 0;  ///< resident for prefilling and handing-over requests
  bool can_admit_ = false;              ///< the first waiting request could start
  std::vector<SlotIndex> cancelled_;    ///< to be dropped when the step in progress ends
  std::vector<SlotIndex> ended_;        ///< scratch

  bool busy_ = false;
  StepRun run_;                 ///< the rest of the run in progress
  std::int64_t step_full_ = 0;  ///< whole duration of the current step at the current clock, ns x 2^20
  Int128 boundary_ = 0;         ///< fixed-point end of the last run: the next one starts there
  StepReport report_;
  StepReport ended_step_;                    ///< the newest report of an ended step
  Instant ended_unsaid_ = Instant::never();  ///< when the step of report_ ended, if its successor has not started

  struct PendingClock {
    Instant at;
    MegaHertz clock;
  };
  MegaHertz locked_;
  MegaHertz most_;   ///< limit_clock()
  MegaHertz clock_;  ///< the lower of the two
  MegaHertz effective_clock_;
  std::deque<PendingClock> pending_;
  Milliwatts power_;
  std::int32_t power_decode_ = -1;
  std::int64_t power_prefill_ = -1;
  bool dead_ = false;
  bool idle_announced_ = true;

  std::int64_t iterations_ = 0;
  std::int32_t steps_waited_ = 0;  ///< by the first of the waiting, in waits_for_more()
  std::int64_t last_prompts_ = 0;  ///< iterations_ after the last step with prompts
  std::int64_t idle_notices_ = 1;  ///< reports of becoming idle, numbered with the steps; it begins idle
  std::int64_t preemptions_ = 0;
  std::vector<Event> events_;
};

}  // namespace wattle::engine
