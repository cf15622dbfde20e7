// How requests get into a Replica: they wait, find blocks, and their prompts are put into steps.
#include <algorithm>

#include "base/check.h"
#include "engine/replica.h"

namespace wattle::engine {

void Replica::submit(const Job& job, Instant now) {
  WATTLE_CHECK(can_ever_fit(job.prompt_tokens, job.output_tokens), "caller checks that the request can ever fit");
  interrupt_run(now);
  const SlotIndex index = slots_.add();
  Slot& slot = slots_[index];
  slot.job = job;
  slot.state = SlotState::Waiting;
  slot.target_tokens = job.prompt_tokens + job.produced;
  slot.generated = job.produced;
  if (job.produced > 0) slot.last_token = to_fixed(job.last_token);
  if (job.kv_ready) slot.generated = 1;
  slot.first_step = iterations_ + (busy_ ? 2 : 1);
  if (const std::int64_t every = options_.engine.receive_interval; every > 1) {
    slot.first_step = last_prompts_ + (slot.first_step - last_prompts_ + every - 1) / every * every;
  }
  prompts_.wait(index, slot);
  update_admission();
}

KvBlocks::Prefix Replica::cached_prefix(const Slot& slot) const {
  if (!caches(slot.job)) return {};
  const bool computed = !slot.job.kv_ready || slot.preemptions > 0;
  return kv_.cached(keys_of(slot.job), kv_.filled(slot.target_tokens - (computed ? 1 : 0)));
}

std::int64_t Replica::cached_tokens(const Job& job) const {
  if (!caches(job)) return 0;
  return kv_.cached(keys_of(job), kv_.filled(job.prompt_tokens)).blocks * options_.engine.block_size;
}

bool Replica::fits_now(const Slot& slot) const {
  if (running() >= options_.engine.max_num_seqs) return false;
  if (options_.engine.reserve_output)
    return kv_.can_promise(final_blocks(slot.job.prompt_tokens, slot.job.output_tokens));
  // The KV of a hand-over arrives whole and decodes at once, so it also needs room for its next token.
  const std::int64_t needed = kv_.holding(slot.target_tokens + (slot.job.kv_ready ? 1 : 0));
  const bool alone = running() == 0 && kv_.free() + kv_.aside() == kv_.total();
  const std::int64_t room = kv_.free() - (alone ? 0 : kv_.watermark() + growth());
  return needed <= room || needed - cached_prefix(slot).in_use <= room;
}

void Replica::update_admission() {
  if (prompts_.none_waiting()) {
    can_admit_ = false;
    return;
  }
  const Slot& slot = slots_[prompts_.front()];
  can_admit_ = in_time(slot, running() == 0) && fits_now(slot);
}

std::int64_t Replica::schedule_chunk(SlotIndex index, std::int64_t budget) {
  Slot& slot = slots_[index];
  const std::int64_t left = slot.target_tokens - slot.prefilled;
  const std::int64_t chunk = options_.engine.whole_prompts ? left : std::min(left, budget);
  if (chunk <= 0) return 0;
  StepShape& shape = report_.shape;
  shape.prefill_requests += 1;
  shape.prefill_tokens += chunk;
  shape.prefill_context_tokens += chunk * slot.prefilled + chunk * chunk / 2;
  report_.unfinished_prompt_tokens += left - chunk;
  report_.oldest_scheduled_arrival = std::min(report_.oldest_scheduled_arrival, slot.job.arrival);
  prompts_.add_share(index, slot.job.tag, chunk);
  if (caches(slot.job)) kv_.enter(keys_of(slot.job), kv_.filled(slot.prefilled + chunk), slot.held);
  return chunk;
}

void Replica::admit(SlotIndex index, Instant at) {
  Slot& slot = slots_[index];
  prompts_.leave_waiting(index, slot);
  slot.blocks = kv_.holding(slot.target_tokens);
  const KvBlocks::Prefix cached = cached_prefix(slot);
  if (cached.blocks > 0) {
    kv_.hold_cached(keys_of(slot.job), cached.blocks, slot.held);
    slot.prefilled = static_cast<std::int32_t>(cached.blocks * options_.engine.block_size);
    if (slot.preemptions == 0 && slot.job.produced == 0) slot.cached_tokens = slot.prefilled;
  }
  kv_.take(slot.blocks - cached.blocks);
  if (options_.engine.reserve_output) {
    slot.promised = final_blocks(slot.job.prompt_tokens, slot.job.output_tokens);
    kv_.promise(slot.promised);
  }
  if (slot.prefill_start == Instant::never()) slot.prefill_start = at;
}

bool Replica::waits_for_more(bool idle) {
  const EngineOptions& engine = options_.engine;
  if (engine.batch_wait_steps == 0 || prompts_.none_waiting() || !in_time(slots_[prompts_.front()], idle)) return false;
  const auto tokens = static_cast<double>(prompts_.waiting_tokens() + std::int64_t{decode_.size()} * verified());
  const bool waits = decode_.size() > 0 && steps_waited_ < engine.batch_wait_steps &&
                     tokens < engine.batch_wait_share * engine.max_num_batched_tokens;
  steps_waited_ = waits ? steps_waited_ + 1 : 0;
  return waits;
}

void Replica::schedule_prefill(std::int64_t budget) {
  prompts_.clear_shares();
  report_.unfinished_prompt_tokens = 0;
  report_.oldest_scheduled_arrival = Instant::never();
  for (const SlotIndex index : prompts_.computing()) budget -= schedule_chunk(index, budget);
  const Instant at = to_instant(boundary_);
  const bool idle = running() == 0;
  if (waits_for_more(idle)) return;
  while (budget > 0 && !prompts_.none_waiting()) {
    const SlotIndex index = prompts_.front();
    Slot& slot = slots_[index];
    if (!in_time(slot, idle) || !fits_now(slot)) break;
    const bool kv_ready = slot.job.kv_ready && slot.preemptions == 0;
    const bool too_long = options_.engine.whole_prompts && slot.target_tokens > budget &&
                          slot.target_tokens - cached_prefix(slot).blocks * options_.engine.block_size > budget;
    if (too_long && !kv_ready && report_.shape.prefill_tokens > 0) break;
    admit(index, at);
    if (kv_ready) {
      slot.prefilled = slot.target_tokens;
      if (caches(slot.job)) kv_.enter(keys_of(slot.job), kv_.filled(slot.prefilled), slot.held);
      slot.last_token = boundary_;
      join_decode(index, at);
      emit(EventKind::TakenOver, slot, at);
      budget -= 1;
    } else {
      slot.state = SlotState::Prefilling;
      kv_tokens_prefill_ += slot.prefilled;
      prompts_.compute(index);
      budget -= schedule_chunk(index, budget);
    }
  }
}

}  // namespace wattle::engine
