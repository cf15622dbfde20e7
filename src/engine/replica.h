#pragma once
// Truth about one engine instance (a TP group): continuous batching over paged KV, a step at a time or many at once.
//
// Validity: scheduling follows vLLM V1 (FCFS, decodes first, chunked prefill within a token budget, watermark on
// admission, preemption of the newest request by recompute). Prefix caching, LoRA and speculative decoding are not
// modelled.
//
// Exactness: all times are fixed point (2^-20 ns). A stretch of n pure-decode steps is a closed form, so running with
// fast_forward gives the same events, at the same nanosecond, as running step by step (tests/property, INV-6).
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "engine/options.h"
#include "engine/step_model.h"
#include "model/decision.h"
#include "model/instance.h"

namespace wattle::engine {

/// The driver's own handle of a request; echoed in events.
using Tag = std::uint32_t;

/// A request as it really is.
struct Job {
  Tag tag = 0;
  RequestId id;
  Instant arrival;
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 1;          ///< truth, >= 1
  bool kv_ready = false;                   ///< decode leg: the prompt's KV and the first token exist already
  Instant first_token = Instant::never();  ///< with kv_ready: when the client got the first token; never: on joining
};

enum class EventKind : std::uint8_t {
  FirstToken,  ///< at a prefill instance the KV stays until release()
  Finished,    ///< all output tokens produced (after FirstToken, possibly at the same instant)
  Cancelled,   ///< a cancelled request has left; when it was part of a step, at that step's end
};

struct Event {
  EventKind kind;
  Tag tag;
  Instant at;
  Instant prefill_start;  ///< when its first prompt token was scheduled here
  std::int32_t output_tokens = 0;
  std::int32_t preemptions = 0;
  std::int64_t gaps_within_itl = 0;  ///< of the gaps produced at this instance
};

/// Part of one step's prompt tokens.
struct PrefillShare {
  Tag tag;
  std::int64_t tokens;
};

/// What the driver is told as it happens. Calls come in time order; `at` never exceeds the driver's now.
class ReplicaObserver {
 public:
  virtual ~ReplicaObserver() = default;
  /// A step is about to run; the answer says how far its successors may be run without asking again.
  virtual Hold step_starts(const StepReport& report) = 0;
  /// Nothing to run any more.
  virtual void goes_idle(InstanceId instance, Instant at) = 0;
  /// From `at` on the instance draws this, for so many decoding requests and prompt tokens (both 0: idle), at this
  /// effective clock.
  virtual void power_changes(InstanceId instance, Instant at, Milliwatts power, std::int32_t decode_requests,
                             std::int64_t prefill_tokens, MegaHertz clock) = 0;
  virtual void decode_joined(InstanceId instance, Tag tag, Instant at) = 0;
  virtual void decode_left(InstanceId instance, Tag tag, Instant at) = 0;
  /// A step with prompt tokens ended (or was cut off); its prefill energy belongs to these.
  virtual void prefill_settled(InstanceId instance, Instant at, std::span<const PrefillShare> shares) = 0;
  /// `steps` token gaps of (first + i x increment) / 2^20 ns, each seen by `requests` requests.
  virtual void gaps(std::int64_t first, std::int64_t increment, std::int64_t steps, std::int32_t requests) = 0;
  /// Live only: one token for this request. Called per token, and only when ReplicaOptions::per_token is set.
  virtual void token(Tag tag, Instant at) {
    (void)tag;
    (void)at;
  }
};

struct ReplicaOptions {
  InstanceId id;
  Role role = Role::Colocated;
  EngineOptions engine;
  ClockDelays delays;
  MegaHertz initial_clock;
  Instant born;  ///< it draws idle power from then on
  Span itl_slo = Span::max();
  bool fast_forward = true;
  bool per_token = false;  ///< call ReplicaObserver::token; implies no fast-forward
};

class Replica {
 public:
  Replica(const StepModel& model, const ReplicaOptions& options, ReplicaObserver& observer);

  /// Whether a request of this size could ever run here, alone. (A prefill instance keeps only the prompt.)
  [[nodiscard]] bool can_ever_fit(std::int32_t prompt_tokens, std::int32_t output_tokens) const;

  /// Queue a request. Precondition: can_ever_fit, advance(now) done.
  void submit(const Job& job, Instant now);
  /// The KV of a request whose prefill ended here has been taken over (or is not wanted).
  void release(Tag tag, Instant now);
  /// Drop a request wherever it is; a Cancelled event follows. False when unknown or already cancelled.
  bool cancel(Tag tag, Instant now);
  /// Everything in it is lost; returns the tags of all requests it held. Draws nothing until revived.
  std::vector<Tag> kill(Instant now);
  void revive(Instant now);
  [[nodiscard]] bool dead() const { return dead_; }

  /// Lock the clock: effective after the call and the transition. Commands take effect in order.
  void command_clock(MegaHertz clock, Instant now);

  /// When advance() must next be called; never() when idle and settled.
  [[nodiscard]] Instant next_wake() const;
  /// Process everything due up to and including `now`, except starting the next step: a driver first handles events(),
  /// which may submit here, then calls start_step().
  void advance(Instant now);
  /// True when no step is running but there is work, or the last one has just left.
  [[nodiscard]] bool wants_start() const { return !busy_ && !dead_ && (has_work() || !idle_announced_); }
  /// Starts the next step, or goes idle.
  void start_step(Instant now);

  /// The run in progress: `steps` steps from `start`, the i-th takes first + i x increment; all fixed point. No step in
  /// progress: steps 0.
  struct Run {
    Int128 start = 0;
    std::int64_t first = 0;
    std::int64_t increment = 0;
    std::int64_t steps = 0;
    [[nodiscard]] Instant begin_of(std::int64_t step) const;
  };
  [[nodiscard]] Run run() const { return busy_ ? Run{run_start_, run_first_, run_increment_, run_steps_} : Run{}; }
  /// How long the step in progress at `now` takes as a whole; zero when idle.
  [[nodiscard]] Span step_length(Instant now) const;
  /// A decision was changed: the run in progress ends with its present step. The next wake may have come nearer.
  void interrupt(Instant now) { interrupt_run(now); }

  /// Events since the last clear, in time order.
  std::vector<Event>& events() { return events_; }

  /// The report of the step in progress at `now` (or of going idle): what a live engine has told by then, no more.
  [[nodiscard]] const StepReport& report(Instant now);

  [[nodiscard]] Milliwatts power() const { return power_; }
  [[nodiscard]] MegaHertz locked_clock() const { return clock_; }
  [[nodiscard]] MegaHertz effective_clock() const { return effective_clock_; }
  [[nodiscard]] std::int64_t iterations() const { return iterations_; }
  [[nodiscard]] std::int64_t blocks_total() const { return blocks_total_; }
  [[nodiscard]] std::int64_t blocks_free() const { return blocks_free_; }
  [[nodiscard]] std::int64_t preemptions() const { return preemptions_; }
  [[nodiscard]] std::int64_t kv_capacity_tokens() const { return blocks_total_ * options_.engine.block_size; }
  [[nodiscard]] std::int64_t requests_held() const { return live_slots_; }

  /// INV-3, INV-4: recomputes block, KV and membership totals from the slots and aborts on any difference.
  void check_invariants() const;

 private:
  using Fixed = std::int64_t;  ///< a duration, ns x 2^20
  using SlotIndex = std::int32_t;
  static constexpr SlotIndex kNone = -1;

  enum class State : std::uint8_t { Free, Waiting, Prefilling, Decoding, Handing };

  struct Slot {
    Job job;
    State state = State::Free;
    bool cancelled = false;          ///< leaves when the step in progress ends
    std::uint32_t epoch = 0;         ///< invalidates finish-heap entries
    std::int32_t target_tokens = 0;  ///< prompt tokens to compute before decoding (prompt + recomputed output)
    std::int32_t prefilled = 0;
    std::int32_t generated = 0;  ///< output tokens produced, as of joining decode
    std::int64_t blocks = 0;     ///< as of joining decode
    std::int64_t joined = 0;     ///< decode_steps_ when it joined
    std::int64_t good_mark = 0;  ///< good_steps_ when its step gaps began to count
    std::int64_t good_gaps = 0;
    Int128 last_token = 0;  ///< fixed-point instant
    Instant prefill_start = Instant::never();
    std::int32_t preemptions = 0;
    SlotIndex previous = kNone;  ///< decoding requests, oldest joined first
    SlotIndex next = kNone;
  };
  struct Finish {
    std::int64_t step;
    SlotIndex slot;
    std::uint32_t epoch;
    static bool later(const Finish& a, const Finish& b) { return a.step != b.step ? a.step > b.step : a.slot > b.slot; }
  };
  struct PendingClock {
    Instant at;
    MegaHertz clock;
  };

  [[nodiscard]] bool has_work() const { return decoding_ > 0 || !prefilling_.empty() || can_admit_; }
  [[nodiscard]] std::int64_t blocks_for(std::int64_t tokens) const {
    return (tokens + options_.engine.block_size - 1) / options_.engine.block_size;
  }
  [[nodiscard]] std::int64_t resident_tokens(const Slot& slot) const;
  [[nodiscard]] std::int64_t blocks_needed(std::int64_t steps) const;
  [[nodiscard]] std::int64_t affordable_steps(std::int64_t limit) const;
  [[nodiscard]] Int128 after_steps(std::int64_t steps) const;
  [[nodiscard]] std::int64_t steps_done_by(Instant now) const;
  [[nodiscard]] std::size_t phase_of(const Slot& slot) const;

  SlotIndex new_slot();
  void free_slot(SlotIndex index);
  SlotIndex find(Tag tag) const;
  [[nodiscard]] bool fits_now(const Slot& slot) const;
  void join_decode(SlotIndex index, Instant at);
  /// Takes it out of the decoding set; its tokens and blocks are brought up to date.
  void leave_decode(SlotIndex index, Instant at);
  void make_room();
  void preempt_newest();
  void schedule_prefill(std::int64_t budget);
  void plan_decode(const Hold& hold);
  void apply_steps(std::int64_t steps);
  void finish_run(Instant at);
  void end_prefill_part(Instant at);
  void pop_finished(Instant at);
  void emit(EventKind kind, const Slot& slot, Instant at);
  /// Brings the counters up to the step in progress at `now` and lets the run end with that step.
  void interrupt_run(Instant now);
  void catch_up(Instant now);
  void drop(SlotIndex index, Instant at);
  void settle_shares(Instant at);
  void change_clock(MegaHertz clock, Instant at);
  void set_power(Milliwatts power, MegaHertz effective, Instant at);
  void go_idle(Instant at);
  void update_admission();

  const StepModel& model_;
  ReplicaOptions options_;
  ReplicaObserver& observer_;

  std::vector<Slot> slots_;
  std::vector<SlotIndex> free_slots_;
  std::int64_t live_slots_ = 0;
  std::deque<SlotIndex> waiting_;
  std::int64_t waiting_prompt_tokens_ = 0;
  std::vector<SlotIndex> prefilling_;
  std::vector<PrefillShare> shares_;  ///< of the step in progress
  std::vector<SlotIndex> share_slots_;
  std::vector<SlotIndex> ended_;  ///< scratch
  std::vector<Finish> finish_heap_;
  std::vector<SlotIndex> fresh_;
  SlotIndex oldest_ = kNone;
  SlotIndex newest_ = kNone;
  bool can_admit_ = false;  ///< the front of waiting_ could start

  // Decode set, as of the last applied step.
  std::int32_t decoding_ = 0;
  std::int64_t decode_steps_ = 0;  ///< decode steps ever run
  std::int64_t good_steps_ = 0;    ///< of these, with a gap within the ITL SLO
  std::int64_t decode_kv_ = 0;
  std::vector<std::int32_t> phase_;  ///< requests by the decode step (mod block size) that needs a new block
  std::int64_t blocks_total_ = 0;
  std::int64_t blocks_free_ = 0;
  std::int64_t watermark_blocks_ = 0;
  std::int64_t kv_tokens_prefill_ = 0;  ///< resident for prefilling and handing-over requests

  // The run in progress: run_steps_ steps from run_start_, of run_first_ + i x run_increment_.
  bool busy_ = false;
  Int128 run_start_ = 0;
  Fixed run_first_ = 0;
  Fixed run_increment_ = 0;
  std::int64_t run_steps_ = 0;
  Fixed step_full_ = 0;               ///< whole duration of the current step at the current clock
  Int128 last_decode_end_ = 0;        ///< when the decoding requests last got a token
  Int128 boundary_ = 0;               ///< fixed-point end of the last run: the next one starts there
  std::vector<SlotIndex> cancelled_;  ///< to be dropped when the step in progress ends
  StepReport report_;

  MegaHertz clock_;
  MegaHertz effective_clock_;
  std::deque<PendingClock> pending_;
  Milliwatts power_;
  std::int32_t power_decode_ = -1;
  std::int64_t power_prefill_ = -1;
  bool dead_ = false;
  bool idle_announced_ = true;

  std::int64_t iterations_ = 0;
  std::int64_t idle_notices_ = 1;  ///< reports of going idle, numbered with the steps; it begins idle
  std::int64_t preemptions_ = 0;
  std::vector<Event> events_;
};

}  // namespace wattle::engine
