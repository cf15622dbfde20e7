#include "engine/replica.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/speculation.h"

namespace wattle::engine {

Replica::Replica(const StepModel& model, const ReplicaOptions& options, ReplicaObserver& observer)
    : model_(model),
      options_(options),
      observer_(observer),
      kv_(model.kv_blocks(), options.engine.block_size, options.engine.watermark),
      decode_(options.engine.block_size),
      locked_(options.initial_clock),
      most_(model.gpu().clock_max),
      clock_(options.initial_clock),
      effective_clock_(options.initial_clock),
      power_(model.idle_power(options.initial_clock)) {
  if (options_.per_token) options_.fast_forward = false;
  report_.instance = options_.id;
  ended_step_.sequence = -1;
  report_.start = options_.started;
  observer_.power_changes(options_.id, options_.started, power_, 0, 0, clock_);
  power_decode_ = 0;
  power_prefill_ = 0;
}

std::int64_t Replica::final_blocks(std::int32_t prompt_tokens, std::int32_t output_tokens) const {
  const std::int64_t output = options_.role == Role::Prefill ? 1 : output_tokens;
  return kv_.holding(prompt_tokens + output);
}

bool Replica::can_ever_fit(std::int32_t prompt_tokens, std::int32_t output_tokens) const {
  return final_blocks(prompt_tokens, output_tokens) <= kv_.total();
}

void Replica::free_slot(SlotIndex index) {
  Slot& slot = slots_[index];
  give_back(slot);
  kv_.promise(-slot.promised);
  slot.promised = 0;
  slots_.remove(index);
}

void Replica::give_back(Slot& slot) {
  kv_.give(slot.blocks - std::ssize(slot.held));
  kv_.release(slot.held);
  slot.blocks = 0;
}

void Replica::emit(EventKind kind, const Slot& slot, Instant at) {
  events_.push_back({kind, slot.job.tag, at, slot.prefill_start, slot.generated, slot.preemptions, slot.good_gaps,
                     Span(slot.longest_gap >> kTimeFractionBits), to_instant(slot.last_token), slot.cached_tokens});
}

// ---------------------------------------------------------------------------------------------- decoding requests

void Replica::join_decode(SlotIndex index, Instant at) {
  decode_.join(slots_, index);
  observer_.decode_joined(options_.id, slots_[index].job.tag, at);
}

void Replica::leave_decode(SlotIndex index, Instant at) {
  decode_.leave(slots_, index, kv_);
  Slot& slot = slots_[index];
  const bool ends = slot.generated >= slot.job.output_tokens;  // then the KV of its output is not needed again
  if (!ends && caches(slot.job)) kv_.enter(keys_of(slot.job), kv_.filled(slot.prefilled), slot.held);
  observer_.decode_left(options_.id, slots_[index].job.tag, at);
}

void Replica::preempt_newest() {
  const SlotIndex index = decode_.newest();
  leave_decode(index, to_instant(boundary_));
  Slot& slot = slots_[index];
  give_back(slot);
  slot.target_tokens = slot.job.prompt_tokens + slot.generated;
  slot.prefilled = 0;
  slot.state = SlotState::Waiting;
  ++slot.preemptions;
  ++preemptions_;
  prompts_.wait_first(index, slot);
}

void Replica::make_room() {
  while (decode_.size() > 0 && growth() > kv_.free()) preempt_newest();
}

// ---------------------------------------------------------------------------------------------- running

Span Replica::step_length(Instant now) const {
  if (!busy_) return Span();
  const std::int64_t step = std::min(run_.done_by(now), run_.steps - 1);
  return Span((step_full_ + run_.increment * step) >> kTimeFractionBits);
}

void Replica::set_power(Milliwatts power, MegaHertz effective, Instant at) {
  const std::int32_t decode = busy_ ? report_.shape.decode_requests : 0;
  const std::int64_t prefill = busy_ ? report_.shape.prefill_tokens : 0;
  if (power == power_ && decode == power_decode_ && prefill == power_prefill_ && effective == effective_clock_) return;
  effective_clock_ = effective;
  power_ = power;
  power_decode_ = decode;
  power_prefill_ = prefill;
  observer_.power_changes(options_.id, at, power, decode, prefill, effective);
}

void Replica::start_step(Instant now) {
  WATTLE_CHECK(!busy_, "a step is already running");
  if (dead_) return;
  if (to_instant(boundary_) != now) boundary_ = to_fixed(now);
  const bool was_decoding = decode_.size() > 0;
  if (const Instant ended = std::exchange(ended_unsaid_, Instant::never()); ended != Instant::never()) {
    // Requests that arrived in the meantime are in the queue of the next step.
    note_ended(ended);
    observer_.step_ended(ended_step_);
  }

  make_room();
  report_.shape = StepShape{};
  const auto& engine = options_.engine;
  const bool prefill_only = options_.role == Role::Colocated && !engine.chunked_prefill;
  schedule_prefill(prefill_only ? engine.max_num_batched_tokens
                                : std::max<std::int64_t>(
                                      0, engine.max_num_batched_tokens - std::int64_t{decode_.size()} * verified()));
  update_admission();
  auto& shape = report_.shape;
  if (!(prefill_only && shape.prefill_tokens > 0)) {
    shape.decode_requests = decode_.size();
    shape.decode_kv_tokens = decode_.kv_tokens();
  }
  if (shape.idle()) {
    go_idle(now);
    return;
  }
  if (!was_decoding) decode_.restart(boundary_);

  report_.sequence = iterations_ + idle_notices_;
  report_.start = now;
  report_.waiting_requests = prompts_.waiting();
  report_.waiting_prompt_tokens = prompts_.waiting_tokens();
  report_.kv_tokens = resident_tokens();
  const Hold hold = observer_.step_starts(report_);
  report_.yield = {};  // said once
  while (!pending_.empty() && pending_.front().at <= now) {
    locked_ = pending_.front().clock;
    clock_ = std::min(locked_, most_);
    pending_.pop_front();
  }

  busy_ = true;
  idle_announced_ = false;
  const Cost step = cost(boundary_);
  run_ = step.run;
  step_full_ = run_.first;
  set_power(step.power, step.effective_clock, now);
  if (shape.prefill_tokens == 0) {
    run_.steps = steps_ahead(step, hold);
  } else {
    last_prompts_ = iterations_ + 1;
  }
}

Replica::Cost Replica::cost(Int128 start) const {
  if (report_.shape.prefill_tokens > 0) {
    const StepCost step = model_.mixed(report_.shape, clock_);
    return {{start, step.duration, 0, 1}, step.power, step.effective_clock};
  }
  const DecodeLine& line = model_.decode(decode_.size(), decode_.kv_tokens(), clock_);
  return {{start, line.base + line.slope * decode_.kv_tokens(), line.slope * decode_.size(), 1},
          line.power,
          line.effective_clock,
          line.kv_below};
}

std::int64_t Replica::steps_ahead(const Cost& of, const Hold& hold) {
  const std::int64_t kv = decode_.kv_tokens();
  const std::int64_t requests = decode_.size();
  if (!options_.fast_forward || verified() > 1 || !hold.covers(kv, report_.start)) return 1;
  const bool may_start = options_.engine.batch_wait_steps == 0;
  if (!prompts_.none_waiting() && !(may_start && in_time(slots_[prompts_.front()], false))) return 1;  // it soon will
  std::int64_t steps = decode_.steps_to_finish(slots_);
  steps = std::min(steps, (of.kv_below - kv + requests - 1) / requests);
  steps = std::min(steps, (hold.kv_tokens_max - kv) / requests + 1);
  StepRun ahead = of.run;
  ahead.steps = decode_.affordable_steps(std::max<std::int64_t>(steps, 1), kv_.free());
  // Step k starts when k steps are done; the last one allowed starts before hold.until.
  return hold.until == Instant::never() ? ahead.steps
                                        : std::min(ahead.steps, ahead.done_by(hold.until - Span::ns(1)) + 1);
}

void Replica::apply_steps(std::int64_t steps) {
  if (steps == 0) return;
  iterations_ += steps;
  if (report_.shape.decode_requests == 0) {
    run_ = run_.from(steps);
    return;
  }
  kv_.take(decode_.blocks_needed(steps));
  decode_.advance(run_, steps, slots_, observer_);
  run_ = run_.from(steps);
  step_full_ = run_.first;
  if (options_.per_token) {
    const Instant at = to_instant(run_.start);
    for (SlotIndex i = decode_.oldest(); i != kNoSlot; i = slots_[i].next) observer_.token(slots_[i].job.tag, at);
  }
  if (verified() > 1) accept_drafts(to_instant(run_.start));
}

void Replica::accept_drafts(Instant at) {
  std::int32_t all = 0;
  for (SlotIndex i = decode_.oldest(); i != kNoSlot; i = slots_[i].next) {
    Slot& slot = slots_[i];
    const std::int32_t left = decode_.tokens_left(slot);
    const std::int32_t tokens = std::min(left, accepted_drafts(options_.engine, slot.job.id, left));
    if (tokens == 0) continue;
    kv_.take(decode_.accept(slots_, i, tokens, kv_));
    slot.good_gaps += tokens;  // they arrive together with the step's first token
    all += tokens;
    for (std::int32_t k = 0; options_.per_token && k < tokens; ++k) observer_.token(slot.job.tag, at);
  }
  if (all > 0) decode_.report_gaps({.requests = all, .within = all}, observer_);
  report_.yield = {report_.shape.decode_requests, std::int64_t{report_.shape.decode_requests} + all};
}

void Replica::catch_up(Instant now) {
  if (!busy_ || run_.steps <= 1) return;
  const std::int64_t done = std::min(run_.done_by(now), run_.steps - 1);
  apply_steps(done);
  report_.shape.decode_kv_tokens = decode_.kv_tokens();
  report_.kv_tokens = resident_tokens();
  report_.start = to_instant(run_.start);
  report_.sequence = iterations_ + idle_notices_;
  if (done > 0) note_before_last();
}

void Replica::interrupt_run(Instant now) {
  catch_up(now);
  if (busy_) run_.steps = 1;
}

const StepReport& Replica::report(Instant now) {
  catch_up(now);
  return report_;
}

const StepReport& Replica::last_ended(Instant now) {
  catch_up(now);
  return ended_step_;
}

/// The predecessor, in its run, of the step that report_ is of.
void Replica::note_before_last() {
  if (!options_.ended_reports) return;
  note_ended(report_.start);
  ended_step_.shape.decode_kv_tokens -= ended_step_.shape.decode_requests;
  --ended_step_.sequence;
}

/// Reports the end of the step in report_. The queue has not changed since then: every change first reports pending
/// ends.
void Replica::note_ended(Instant at) {
  ended_step_ = report_;
  ended_step_.moment = StepMoment::Ended;
  ended_step_.start = at;
  ended_step_.waiting_requests = prompts_.waiting();
  ended_step_.waiting_prompt_tokens = prompts_.waiting_tokens();
  ended_step_.unfinished_prompt_tokens = 0;  // engines that report steps that have ended do not say it
  ended_step_.oldest_scheduled_arrival = Instant::never();
}

void Replica::settle_shares(Instant at) {
  if (prompts_.shares().empty()) return;
  observer_.prefill_settled(options_.id, at, prompts_.shares());
  prompts_.clear_shares();
}

void Replica::end_prefill_part(Instant at) {
  ended_.assign(prompts_.share_slots().begin(), prompts_.share_slots().end());
  for (std::size_t i = 0; i < ended_.size(); ++i) {
    const std::int64_t tokens = prompts_.shares()[i].tokens;
    slots_[ended_[i]].prefilled += static_cast<std::int32_t>(tokens);
    kv_tokens_prefill_ += tokens;
  }
  settle_shares(at);
  for (const SlotIndex index : ended_) {
    if (!slots_[index].cancelled && slots_[index].prefilled >= slots_[index].target_tokens) end_prompt(index, at);
  }
}

void Replica::end_prompt(SlotIndex index, Instant at) {
  Slot& slot = slots_[index];
  prompts_.leave_computing(index);
  ++slot.generated;
  const bool first = slot.generated == 1;
  if (!first) {  // the token after a recompute: its gap spans the preemption
    const Int128 gap = run_.start - slot.last_token;
    const bool good = gap <= to_fixed(slot.job.itl);
    decode_.report_gaps({.first = gap_of(gap), .requests = 1, .within = good ? 1 : 0}, observer_);
    slot.good_gaps += good ? 1 : 0;
    slot.longest_gap = std::max(slot.longest_gap, gap_of(gap));
    if (options_.per_token) observer_.token(slot.job.tag, at);
  }
  slot.last_token = run_.start;
  if (first) emit(EventKind::FirstToken, slot, at);
  if (slot.generated >= slot.job.output_tokens) {
    kv_tokens_prefill_ -= slot.prefilled;
    emit(EventKind::Finished, slot, at);
    free_slot(index);
  } else if (options_.role == Role::Prefill) {
    slot.state = SlotState::Handing;
  } else {
    kv_tokens_prefill_ -= slot.prefilled;
    join_decode(index, at);
  }
}

void Replica::pop_finished(Instant at) {
  for (SlotIndex index = decode_.pop_finished(slots_); index != kNoSlot; index = decode_.pop_finished(slots_)) {
    leave_decode(index, at);
    const Slot& slot = slots_[index];
    emit(slot.cancelled ? EventKind::Cancelled : EventKind::Finished, slot, at);
    free_slot(index);
  }
}

void Replica::finish_run(Instant at) {
  busy_ = false;
  boundary_ = run_.start;
  if (options_.ended_reports) ended_unsaid_ = at;
  // Finished requests leave before new ones join, so that a request never decodes past its last token.
  pop_finished(at);
  end_prefill_part(at);
  for (const SlotIndex index : cancelled_) {
    const Slot& slot = slots_[index];
    if (slot.state == SlotState::Free) continue;  // its last token came with this step
    drop(index, at);
    emit(EventKind::Cancelled, slot, at);
  }
  cancelled_.clear();
  update_admission();
}

void Replica::advance(Instant now) {
  for (;;) {
    const Instant end = busy_ ? run_.end() : Instant::never();
    const Instant clock = pending_.empty() ? Instant::never() : pending_.front().at;
    if (std::min(end, clock) > now) return;
    if (end <= clock) {
      if (run_.steps > 1) {
        // The last step of the run counts as reported, although no report of it was sent.
        const std::int64_t before = run_.steps - 1;
        report_.shape.decode_kv_tokens = decode_.kv_tokens() + before * decode_.size();
        report_.kv_tokens = resident_tokens() + before * decode_.size();
        report_.start = run_.begin_of(before);
        report_.sequence = iterations_ + before + idle_notices_;
        note_before_last();
      }
      apply_steps(run_.steps);
      finish_run(end);
      return;
    }
    const MegaHertz target = pending_.front().clock;
    pending_.pop_front();
    lock(target, clock);
  }
}

Instant Replica::next_wake() const {
  const Instant end = busy_ ? run_.end() : Instant::never();
  return pending_.empty() ? end : std::min(end, pending_.front().at);
}

void Replica::go_idle(Instant at) {
  idle_announced_ = true;
  report_.shape = StepShape{};
  report_.start = at;
  report_.sequence = iterations_ + idle_notices_++;
  report_.waiting_requests = prompts_.waiting();
  report_.kv_tokens = resident_tokens();
  set_power(model_.idle_power(clock_), clock_, at);
  observer_.goes_idle(options_.id, at);
  report_.yield = {};
}

// ---------------------------------------------------------------------------------------------- clocks

void Replica::command_clock(MegaHertz clock, Instant now) {
  const Instant at = now + options_.delays.whole();
  pending_.push_back({pending_.empty() ? at : std::max(at, pending_.back().at), clock});
}

void Replica::limit_clock(std::optional<MegaHertz> most, Instant now) {
  most_ = most.value_or(model_.gpu().clock_max);
  change_clock(std::min(locked_, most_), now);
}

void Replica::lock(MegaHertz clock, Instant at) {
  locked_ = clock;
  change_clock(std::min(locked_, most_), at);
}

void Replica::change_clock(MegaHertz clock, Instant at) {
  if (clock == clock_) return;
  if (dead_) {  // locks are the GPU's, and outlast the engine
    clock_ = clock;
    return;
  }
  if (!busy_) {
    clock_ = clock;
    set_power(model_.idle_power(clock_), clock_, at);
    return;
  }
  interrupt_run(at);
  clock_ = clock;
  // The share of the step that is left takes as long as that share of the whole step takes at the new clock.
  const Int128 split = std::max(run_.start, to_fixed(at));
  const Int128 left = run_.after(1) - split;
  const Cost whole = cost(split);
  run_ = {split, static_cast<std::int64_t>(left * whole.run.first / step_full_), 0, 1};
  step_full_ = whole.run.first;
  set_power(whole.power, whole.effective_clock, at);
}

// ---------------------------------------------------------------------------------------------- checks

void Replica::check_invariants() const {
  std::int64_t blocks = 0;
  std::int64_t kv = 0;
  std::int64_t prefill_kv = 0;
  std::int64_t live = 0;
  std::int64_t shared = 0;
  std::int32_t decoding = 0;
  std::vector<CachedBlock> held;
  for (SlotIndex i = 0; i < slots_.end(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.state == SlotState::Free) continue;
    ++live;
    if (slot.state == SlotState::Decoding) {
      ++decoding;
      const std::int64_t resident = decode_.resident_tokens(slot);
      kv += resident;
      blocks += kv_.holding(resident) - std::ssize(slot.held);
    } else {
      blocks += slot.blocks - std::ssize(slot.held);
      prefill_kv += slot.prefilled;
    }
    held.insert(held.end(), slot.held.begin(), slot.held.end());
  }
  std::ranges::sort(held);
  for (auto block = held.begin(); block != held.end();) {
    const auto next = std::upper_bound(block, held.end(), *block);
    WATTLE_CHECK(kv_.cache().holders(*block) == next - block, "INV-3: a cached block is held by its holders");
    shared += next - block - 1;
    ++blocks;
    block = next;
  }
  WATTLE_CHECK(shared * options_.engine.block_size == kv_.shared_tokens(), "INV-3: what is shared is counted once");
  kv_.cache().check(kv_.free());
  WATTLE_CHECK(live == slots_.held(), "INV-2: every held request is in exactly one state");
  WATTLE_CHECK(decoding == decode_.size() && kv == decode_.kv_tokens(),
               "INV-4: decode totals equal the sum over requests");
  WATTLE_CHECK(prefill_kv == kv_tokens_prefill_, "INV-4: prefill KV equals the sum over requests");
  WATTLE_CHECK(kv_.free() >= 0 && blocks + kv_.free() + kv_.aside() == kv_.total(), "INV-3: KV blocks are conserved");
  WATTLE_CHECK(has_clock(model_.gpu(), locked_), "INV-11: a GPU is locked to a clock it has");
  WATTLE_CHECK(clock_ == std::min(locked_, most_), "a GPU runs at its lock, or at the limit below it");
}

}  // namespace wattle::engine
