#include "engine/replica.h"

#include <algorithm>

#include "base/check.h"

namespace wattle::engine {

namespace {

constexpr Int128 to_fixed(Instant t) { return Int128{t.ns()} << kTimeFractionBits; }
constexpr Instant to_instant(Int128 fixed) { return Instant(static_cast<std::int64_t>(fixed >> kTimeFractionBits)); }
constexpr Int128 to_fixed(Span d) { return Int128{d.ns()} << kTimeFractionBits; }

}  // namespace

Replica::Replica(const StepModel& model, const ReplicaOptions& options, ReplicaObserver& observer)
    : model_(model),
      options_(options),
      observer_(observer),
      phase_(static_cast<std::size_t>(options.engine.block_size), 0),
      blocks_total_(model.kv_blocks()),
      blocks_free_(blocks_total_),
      watermark_blocks_(static_cast<std::int64_t>(options.engine.watermark * static_cast<double>(blocks_total_))),
      clock_(options.initial_clock),
      effective_clock_(options.initial_clock),
      power_(model.idle_power(options.initial_clock)) {
  if (options_.per_token) options_.fast_forward = false;
  report_.instance = options_.id;
  report_.start = options_.born;
  observer_.power_changes(options_.id, options_.born, power_, 0, 0, clock_);
  power_decode_ = 0;
  power_prefill_ = 0;
}

bool Replica::can_ever_fit(std::int32_t prompt_tokens, std::int32_t output_tokens) const {
  const std::int64_t output = options_.role == Role::Prefill ? 1 : output_tokens;
  return blocks_for(prompt_tokens + output) <= blocks_total_;
}

// ---------------------------------------------------------------------------------------------- slots

Replica::SlotIndex Replica::new_slot() {
  ++live_slots_;
  if (!free_slots_.empty()) {
    const SlotIndex index = free_slots_.back();
    free_slots_.pop_back();
    const std::uint32_t epoch = slots_[static_cast<std::size_t>(index)].epoch;
    slots_[static_cast<std::size_t>(index)] = Slot{};
    slots_[static_cast<std::size_t>(index)].epoch = epoch + 1;
    return index;
  }
  slots_.emplace_back();
  return static_cast<SlotIndex>(slots_.size() - 1);
}

void Replica::free_slot(SlotIndex index) {
  auto& slot = slots_[static_cast<std::size_t>(index)];
  blocks_free_ += slot.blocks;
  slot.blocks = 0;
  slot.state = State::Free;
  ++slot.epoch;
  free_slots_.push_back(index);
  --live_slots_;
}

Replica::SlotIndex Replica::find(Tag tag) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state != State::Free && slots_[i].job.tag == tag) return static_cast<SlotIndex>(i);
  }
  return kNone;
}

std::int64_t Replica::resident_tokens(const Slot& slot) const {
  return slot.state == State::Decoding ? slot.prefilled + (decode_steps_ - slot.joined) : slot.prefilled;
}

std::size_t Replica::phase_of(const Slot& slot) const {
  const std::int64_t size = options_.engine.block_size;
  return static_cast<std::size_t>((((slot.joined - slot.prefilled) % size) + size) % size);
}

void Replica::emit(EventKind kind, const Slot& slot, Instant at) {
  events_.push_back({kind, slot.job.tag, at, slot.prefill_start, slot.generated, slot.preemptions, slot.good_gaps});
}

// ---------------------------------------------------------------------------------------------- admission

void Replica::submit(const Job& job, Instant now) {
  WATTLE_CHECK(can_ever_fit(job.prompt_tokens, job.output_tokens), "caller checks that the request can ever fit");
  interrupt_run(now);
  const SlotIndex index = new_slot();
  auto& slot = slots_[static_cast<std::size_t>(index)];
  slot.job = job;
  slot.state = State::Waiting;
  slot.target_tokens = job.prompt_tokens;
  if (job.kv_ready) {
    slot.generated = 1;
    if (job.first_token != Instant::never()) slot.last_token = to_fixed(job.first_token);
  }
  waiting_.push_back(index);
  waiting_prompt_tokens_ += job.prompt_tokens;
  update_admission();
}

bool Replica::fits_now(const Slot& slot) const {
  const auto running = decoding_ + static_cast<std::int32_t>(prefilling_.size());
  if (running >= options_.engine.max_num_seqs) return false;
  // The KV of a hand-over arrives whole and decodes at once, so it also needs room for its next token.
  const std::int64_t needed = blocks_for(slot.target_tokens + (slot.job.kv_ready ? 1 : 0));
  const bool alone = running == 0 && blocks_free_ == blocks_total_;
  return blocks_free_ - needed >= (alone ? 0 : watermark_blocks_ + blocks_needed(1));
}

void Replica::update_admission() {
  can_admit_ = !waiting_.empty() && fits_now(slots_[static_cast<std::size_t>(waiting_.front())]);
}

void Replica::schedule_prefill(std::int64_t budget) {
  shares_.clear();
  share_slots_.clear();
  auto& shape = report_.shape;
  report_.oldest_scheduled_arrival = Instant::never();

  const auto take = [&](SlotIndex index) {
    auto& slot = slots_[static_cast<std::size_t>(index)];
    const std::int64_t chunk = std::min<std::int64_t>(slot.target_tokens - slot.prefilled, budget);
    if (chunk <= 0) return;
    budget -= chunk;
    shape.prefill_requests += 1;
    shape.prefill_tokens += chunk;
    shape.prefill_context_tokens += chunk * slot.prefilled + chunk * chunk / 2;
    report_.oldest_scheduled_arrival = std::min(report_.oldest_scheduled_arrival, slot.job.arrival);
    shares_.push_back({slot.job.tag, chunk});
    share_slots_.push_back(index);
  };

  for (const SlotIndex index : prefilling_) take(index);
  const Instant at = to_instant(boundary_);
  while (budget > 0 && !waiting_.empty()) {
    const SlotIndex index = waiting_.front();
    auto& slot = slots_[static_cast<std::size_t>(index)];
    if (!fits_now(slot)) break;
    waiting_.pop_front();
    waiting_prompt_tokens_ -= slot.target_tokens;
    slot.blocks = blocks_for(slot.target_tokens);
    blocks_free_ -= slot.blocks;
    if (slot.prefill_start == Instant::never()) slot.prefill_start = at;
    if (slot.job.kv_ready && slot.preemptions == 0) {
      slot.prefilled = slot.target_tokens;
      if (slot.job.first_token == Instant::never()) slot.last_token = boundary_;
      join_decode(index, at);
      budget -= 1;
    } else {
      slot.state = State::Prefilling;
      prefilling_.push_back(index);
      take(index);
    }
  }
}

// ---------------------------------------------------------------------------------------------- the decode set

void Replica::join_decode(SlotIndex index, Instant at) {
  auto& slot = slots_[static_cast<std::size_t>(index)];
  slot.state = State::Decoding;
  slot.joined = decode_steps_;
  slot.previous = newest_;
  slot.next = kNone;
  (newest_ == kNone ? oldest_ : slots_[static_cast<std::size_t>(newest_)].next) = index;
  newest_ = index;
  ++decoding_;
  decode_kv_ += slot.prefilled;
  ++phase_[phase_of(slot)];
  fresh_.push_back(index);
  finish_heap_.push_back({decode_steps_ + slot.job.output_tokens - slot.generated, index, slot.epoch});
  std::ranges::push_heap(finish_heap_, Finish::later);
  observer_.decode_joined(options_.id, slot.job.tag, at);
}

void Replica::leave_decode(SlotIndex index, Instant at) {
  auto& slot = slots_[static_cast<std::size_t>(index)];
  --phase_[phase_of(slot)];
  const std::int64_t steps = decode_steps_ - slot.joined;
  if (steps > 0) {
    slot.good_gaps += good_steps_ - slot.good_mark;
    slot.last_token = last_decode_end_;
  } else {
    std::erase(fresh_, index);
  }
  slot.generated += static_cast<std::int32_t>(steps);
  slot.prefilled += static_cast<std::int32_t>(steps);
  slot.blocks = blocks_for(slot.prefilled);
  decode_kv_ -= slot.prefilled;
  --decoding_;
  ++slot.epoch;
  (slot.previous == kNone ? oldest_ : slots_[static_cast<std::size_t>(slot.previous)].next) = slot.next;
  (slot.next == kNone ? newest_ : slots_[static_cast<std::size_t>(slot.next)].previous) = slot.previous;
  observer_.decode_left(options_.id, slot.job.tag, at);
}

std::int64_t Replica::blocks_needed(std::int64_t steps) const {
  const auto size = static_cast<std::int64_t>(phase_.size());
  std::int64_t needed = steps / size * decoding_;
  for (std::int64_t k = 0; k < steps % size; ++k)
    needed += phase_[static_cast<std::size_t>((decode_steps_ + k) % size)];
  return needed;
}

std::int64_t Replica::affordable_steps(std::int64_t limit) const {
  if (blocks_needed(limit) <= blocks_free_) return limit;
  std::int64_t low = 0;
  std::int64_t high = limit;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (blocks_needed(middle) <= blocks_free_ ? low : high) = middle;
  }
  return low;
}

void Replica::preempt_newest() {
  const SlotIndex index = newest_;
  leave_decode(index, to_instant(boundary_));
  auto& slot = slots_[static_cast<std::size_t>(index)];
  blocks_free_ += slot.blocks;
  slot.blocks = 0;
  slot.target_tokens = slot.job.prompt_tokens + slot.generated;
  slot.prefilled = 0;
  slot.state = State::Waiting;
  ++slot.preemptions;
  ++preemptions_;
  waiting_.push_front(index);
  waiting_prompt_tokens_ += slot.target_tokens;
}

void Replica::make_room() {
  while (decoding_ > 0 && blocks_needed(1) > blocks_free_) preempt_newest();
}

// ---------------------------------------------------------------------------------------------- running

Instant Replica::Run::begin_of(std::int64_t step) const {
  return to_instant(start + Int128{first} * step + Int128{increment} * (Int128{step} * (step - 1) / 2));
}

Span Replica::step_length(Instant now) const {
  if (!busy_) return Span();
  const std::int64_t step = std::min(steps_done_by(now), run_steps_ - 1);
  return Span((step_full_ + run_increment_ * step) >> kTimeFractionBits);
}

Int128 Replica::after_steps(std::int64_t steps) const {
  return run_start_ + Int128{run_first_} * steps + Int128{run_increment_} * (Int128{steps} * (steps - 1) / 2);
}

std::int64_t Replica::steps_done_by(Instant now) const {
  const Int128 limit = to_fixed(now + Span::ns(1));
  std::int64_t low = 0;
  std::int64_t high = run_steps_ + 1;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (after_steps(middle) < limit ? low : high) = middle;
  }
  return low;
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
  const bool was_decoding = decoding_ > 0;

  make_room();
  report_.shape = StepShape{};
  const auto& engine = options_.engine;
  const bool prefill_only = options_.role == Role::Colocated && !engine.chunked_prefill;
  schedule_prefill(prefill_only ? engine.max_num_batched_tokens
                                : std::max<std::int64_t>(0, engine.max_num_batched_tokens - decoding_));
  update_admission();
  auto& shape = report_.shape;
  if (!(prefill_only && shape.prefill_tokens > 0)) {
    shape.decode_requests = decoding_;
    shape.decode_kv_tokens = decode_kv_;
  }
  if (shape.idle()) {
    go_idle(now);
    return;
  }
  if (!was_decoding) last_decode_end_ = boundary_;

  report_.sequence = iterations_ + idle_notices_;
  report_.start = now;
  report_.waiting_requests = static_cast<std::int32_t>(waiting_.size());
  report_.waiting_prompt_tokens = waiting_prompt_tokens_;
  report_.kv_tokens = decode_kv_ + kv_tokens_prefill_;
  const Hold hold = observer_.step_starts(report_);
  while (!pending_.empty() && pending_.front().at <= now) {
    clock_ = pending_.front().clock;
    pending_.pop_front();
  }

  busy_ = true;
  idle_announced_ = false;
  run_start_ = boundary_;
  if (shape.prefill_tokens > 0) {
    const StepCost cost = model_.mixed(shape, clock_);
    run_first_ = cost.duration;
    run_increment_ = 0;
    run_steps_ = 1;
    set_power(cost.power, cost.effective_clock, now);
  } else {
    plan_decode(hold);
  }
  step_full_ = run_first_;
}

void Replica::plan_decode(const Hold& hold) {
  const DecodeLine line = model_.decode(decoding_, decode_kv_, clock_);
  run_first_ = line.base + line.slope * decode_kv_;
  run_increment_ = line.slope * decoding_;
  run_steps_ = 1;
  set_power(line.power, line.effective_clock, report_.start);
  if (!options_.fast_forward || !hold.covers(decode_kv_, report_.start)) return;

  while (!finish_heap_.empty()) {
    const Finish& top = finish_heap_.front();
    if (slots_[static_cast<std::size_t>(top.slot)].epoch == top.epoch) break;
    std::ranges::pop_heap(finish_heap_, Finish::later);
    finish_heap_.pop_back();
  }
  std::int64_t steps = finish_heap_.front().step - decode_steps_;
  steps = std::min(steps, (line.kv_below - decode_kv_ + decoding_ - 1) / decoding_);
  steps = std::min(steps, (hold.kv_tokens_max - decode_kv_) / decoding_ + 1);
  steps = affordable_steps(std::max<std::int64_t>(steps, 1));
  run_steps_ = steps;
  if (hold.until != Instant::never()) {
    // Step k starts when k steps are done; the last one allowed starts before hold.until.
    run_steps_ = std::min(steps, steps_done_by(hold.until - Span::ns(1)) + 1);
  }
}

void Replica::apply_steps(std::int64_t steps) {
  if (steps == 0) return;
  iterations_ += steps;
  if (report_.shape.decode_requests == 0) {
    run_start_ = after_steps(steps);
    run_steps_ -= steps;
    return;
  }
  const Int128 slo = options_.itl_slo == Span::max() ? (Int128{1} << 100) : to_fixed(options_.itl_slo);
  const Int128 first_end = run_start_ + run_first_;
  const Int128 first_gap = first_end - last_decode_end_;
  const auto established = decoding_ - static_cast<std::int32_t>(fresh_.size());
  good_steps_ += first_gap <= slo ? 1 : 0;
  if (established > 0) observer_.gaps(static_cast<std::int64_t>(first_gap), 0, 1, established);
  for (const SlotIndex index : fresh_) {
    auto& slot = slots_[static_cast<std::size_t>(index)];
    const Int128 gap = first_end - slot.last_token;
    observer_.gaps(static_cast<std::int64_t>(gap), 0, 1, 1);
    slot.good_gaps += gap <= slo ? 1 : 0;
    slot.good_mark = good_steps_;
  }
  fresh_.clear();
  if (steps > 1) {
    const std::int64_t second = run_first_ + run_increment_;
    observer_.gaps(second, run_increment_, steps - 1, decoding_);
    if (second <= slo) {
      const Int128 within = run_increment_ == 0 ? steps - 1 : (slo - second) / run_increment_ + 1;
      good_steps_ += static_cast<std::int64_t>(std::min<Int128>(within, steps - 1));
    }
  }

  run_start_ = after_steps(steps);
  blocks_free_ -= blocks_needed(steps);
  decode_steps_ += steps;
  decode_kv_ += steps * decoding_;
  run_first_ += run_increment_ * steps;
  run_steps_ -= steps;
  last_decode_end_ = run_start_;
  step_full_ = run_first_;
  if (options_.per_token) {
    const Instant at = to_instant(run_start_);
    for (SlotIndex i = oldest_; i != kNone; i = slots_[static_cast<std::size_t>(i)].next) {
      observer_.token(slots_[static_cast<std::size_t>(i)].job.tag, at);
    }
  }
}

void Replica::catch_up(Instant now) {
  if (!busy_ || run_steps_ <= 1) return;
  apply_steps(std::min(steps_done_by(now), run_steps_ - 1));
  report_.shape.decode_kv_tokens = decode_kv_;
  report_.kv_tokens = decode_kv_ + kv_tokens_prefill_;
  report_.start = to_instant(run_start_);
  report_.sequence = iterations_ + idle_notices_;
}

void Replica::interrupt_run(Instant now) {
  catch_up(now);
  if (busy_) run_steps_ = 1;
}

const StepReport& Replica::report(Instant now) {
  catch_up(now);
  return report_;
}

void Replica::settle_shares(Instant at) {
  if (shares_.empty()) return;
  observer_.prefill_settled(options_.id, at, shares_);
  shares_.clear();
  share_slots_.clear();
}

void Replica::end_prefill_part(Instant at) {
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    const SlotIndex index = share_slots_[i];
    auto& slot = slots_[static_cast<std::size_t>(index)];
    slot.prefilled += static_cast<std::int32_t>(shares_[i].tokens);
    kv_tokens_prefill_ += shares_[i].tokens;
  }
  ended_.swap(share_slots_);
  settle_shares(at);
  for (const SlotIndex index : ended_) {
    auto& slot = slots_[static_cast<std::size_t>(index)];
    if (slot.cancelled || slot.prefilled < slot.target_tokens) continue;
    std::erase(prefilling_, index);
    ++slot.generated;
    const bool first = slot.generated == 1;
    if (!first) {  // the token after a recompute: its gap spans the preemption
      const Int128 gap = run_start_ - slot.last_token;
      observer_.gaps(static_cast<std::int64_t>(gap), 0, 1, 1);
      slot.good_gaps += options_.itl_slo == Span::max() || gap <= to_fixed(options_.itl_slo) ? 1 : 0;
      if (options_.per_token) observer_.token(slot.job.tag, at);
    }
    slot.last_token = run_start_;
    if (first) emit(EventKind::FirstToken, slot, at);
    if (slot.generated >= slot.job.output_tokens) {
      kv_tokens_prefill_ -= slot.prefilled;
      emit(EventKind::Finished, slot, at);
      free_slot(index);
    } else if (options_.role == Role::Prefill) {
      slot.state = State::Handing;
    } else {
      kv_tokens_prefill_ -= slot.prefilled;
      join_decode(index, at);
    }
  }
}

void Replica::pop_finished(Instant at) {
  while (!finish_heap_.empty()) {
    const Finish top = finish_heap_.front();
    auto& slot = slots_[static_cast<std::size_t>(top.slot)];
    const bool stale = slot.epoch != top.epoch;
    if (!stale && top.step > decode_steps_) break;
    std::ranges::pop_heap(finish_heap_, Finish::later);
    finish_heap_.pop_back();
    if (stale) continue;
    leave_decode(top.slot, at);
    emit(slot.cancelled ? EventKind::Cancelled : EventKind::Finished, slot, at);
    free_slot(top.slot);
  }
}

void Replica::finish_run(Instant at) {
  busy_ = false;
  boundary_ = run_start_;
  // Finished requests leave before new ones join, so that a request never decodes past its last token.
  pop_finished(at);
  end_prefill_part(at);
  for (const SlotIndex index : cancelled_) {
    auto& slot = slots_[static_cast<std::size_t>(index)];
    if (slot.state == State::Free) continue;  // its last token came with this step
    drop(index, at);
    emit(EventKind::Cancelled, slot, at);
  }
  cancelled_.clear();
  update_admission();
}

void Replica::advance(Instant now) {
  for (;;) {
    const Instant end = busy_ ? to_instant(after_steps(run_steps_)) : Instant::never();
    const Instant clock = pending_.empty() ? Instant::never() : pending_.front().at;
    if (std::min(end, clock) > now) return;
    if (end <= clock) {
      if (run_steps_ > 1) {
        // The last of the run's steps is what has been reported by now, though nobody was told of it.
        const std::int64_t before = run_steps_ - 1;
        report_.shape.decode_kv_tokens = decode_kv_ + before * decoding_;
        report_.kv_tokens = report_.shape.decode_kv_tokens + kv_tokens_prefill_;
        report_.start = to_instant(after_steps(before));
        report_.sequence = iterations_ + before + idle_notices_;
      }
      apply_steps(run_steps_);
      finish_run(end);
      return;
    }
    const MegaHertz target = pending_.front().clock;
    pending_.pop_front();
    change_clock(target, clock);
  }
}

Instant Replica::next_wake() const {
  const Instant end = busy_ ? to_instant(after_steps(run_steps_)) : Instant::never();
  return pending_.empty() ? end : std::min(end, pending_.front().at);
}

void Replica::go_idle(Instant at) {
  idle_announced_ = true;
  report_.shape = StepShape{};
  report_.start = at;
  report_.sequence = iterations_ + idle_notices_++;
  report_.waiting_requests = static_cast<std::int32_t>(waiting_.size());
  report_.kv_tokens = kv_tokens_prefill_;
  set_power(model_.idle_power(clock_), clock_, at);
  observer_.goes_idle(options_.id, at);
}

// ---------------------------------------------------------------------------------------------- clocks

void Replica::command_clock(MegaHertz clock, Instant now) {
  const Instant at = now + options_.delays.call + options_.delays.transition;
  pending_.push_back({pending_.empty() ? at : std::max(at, pending_.back().at), clock});
}

void Replica::change_clock(MegaHertz clock, Instant at) {
  if (clock == clock_ || dead_) return;
  if (!busy_) {
    clock_ = clock;
    set_power(model_.idle_power(clock_), clock_, at);
    return;
  }
  interrupt_run(at);
  clock_ = clock;
  // The share of the step that is left takes as long as that share of the whole step takes at the new clock.
  const Int128 split = std::max(run_start_, to_fixed(at));
  const Int128 left = run_start_ + run_first_ - split;
  Fixed full = 0;
  Milliwatts power;
  MegaHertz effective;
  if (report_.shape.prefill_tokens > 0) {
    const StepCost cost = model_.mixed(report_.shape, clock_);
    full = cost.duration;
    power = cost.power;
    effective = cost.effective_clock;
  } else {
    const DecodeLine line = model_.decode(decoding_, decode_kv_, clock_);
    full = line.base + line.slope * decode_kv_;
    power = line.power;
    effective = line.effective_clock;
  }
  run_start_ = split;
  run_first_ = static_cast<Fixed>(left * full / step_full_);
  run_increment_ = 0;
  step_full_ = full;
  set_power(power, effective, at);
}

// ---------------------------------------------------------------------------------------------- leaving early

void Replica::drop(SlotIndex index, Instant at) {
  auto& slot = slots_[static_cast<std::size_t>(index)];
  switch (slot.state) {
    case State::Free:
      return;
    case State::Waiting:
      std::erase(waiting_, index);
      waiting_prompt_tokens_ -= slot.target_tokens;
      break;
    case State::Prefilling:
      std::erase(prefilling_, index);
      kv_tokens_prefill_ -= slot.prefilled;
      break;
    case State::Handing:
      kv_tokens_prefill_ -= slot.prefilled;
      break;
    case State::Decoding:
      leave_decode(index, at);
      break;
  }
  free_slot(index);
}

void Replica::release(Tag tag, Instant now) {
  const SlotIndex index = find(tag);
  if (index == kNone) return;
  WATTLE_CHECK(slots_[static_cast<std::size_t>(index)].state == State::Handing, "released before its prefill ended");
  interrupt_run(now);
  drop(index, now);
  update_admission();
}

bool Replica::cancel(Tag tag, Instant now) {
  const SlotIndex index = find(tag);
  if (index == kNone) return false;
  interrupt_run(now);
  auto& slot = slots_[static_cast<std::size_t>(index)];
  if (slot.cancelled) return false;
  const bool in_step = busy_ && (slot.state == State::Decoding || std::ranges::count(share_slots_, index) > 0);
  if (in_step) {
    slot.cancelled = true;
    cancelled_.push_back(index);
  } else {
    drop(index, now);
    emit(EventKind::Cancelled, slot, now);
    update_admission();
  }
  return true;
}

std::vector<Tag> Replica::kill(Instant now) {
  catch_up(now);
  settle_shares(now);
  std::vector<Tag> tags;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == State::Free) continue;
    tags.push_back(slots_[i].job.tag);
    drop(static_cast<SlotIndex>(i), now);
  }
  busy_ = false;
  dead_ = true;
  can_admit_ = false;
  pending_.clear();
  cancelled_.clear();
  report_.shape = StepShape{};
  set_power(Milliwatts(0), clock_, now);
  return tags;
}

void Replica::revive(Instant now) {
  WATTLE_CHECK(dead_, "only a dead instance comes back");
  dead_ = false;
  go_idle(now);
}

// ---------------------------------------------------------------------------------------------- checks

void Replica::check_invariants() const {
  std::int64_t blocks = 0;
  std::int64_t kv = 0;
  std::int64_t prefill_kv = 0;
  std::int64_t live = 0;
  std::int32_t decoding = 0;
  for (const auto& slot : slots_) {
    if (slot.state == State::Free) continue;
    ++live;
    const std::int64_t resident = resident_tokens(slot);
    if (slot.state == State::Decoding) {
      ++decoding;
      kv += resident;
      blocks += blocks_for(resident);
    } else {
      blocks += slot.blocks;
      prefill_kv += slot.prefilled;
    }
  }
  WATTLE_CHECK(live == live_slots_, "INV-2: every held request is in exactly one state");
  WATTLE_CHECK(decoding == decoding_ && kv == decode_kv_, "INV-4: decode totals equal the sum over requests");
  WATTLE_CHECK(prefill_kv == kv_tokens_prefill_, "INV-4: prefill KV equals the sum over requests");
  WATTLE_CHECK(blocks_free_ >= 0 && blocks + blocks_free_ == blocks_total_, "INV-3: KV blocks are conserved");
}

}  // namespace wattle::engine
