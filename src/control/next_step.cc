#include "control/next_step.h"

#include <algorithm>
#include <cmath>

#include "model/prompt_steps.h"

namespace wattle::control {

namespace {

/// Tokens beyond the KV cache do not count: engines refuse such prompts.
std::int64_t computable(const InstanceSpec& spec, std::int64_t tokens) {
  return spec.kv_capacity_tokens > 0 ? std::min(tokens, spec.kv_capacity_tokens) : tokens;
}

/// The step takes the first of these prompts, and with the last of them what it has room for; the others wait.
void put_prompts(StepReport& next, const InstanceSpec& spec, std::int32_t requests, std::int64_t tokens,
                 Instant oldest) {
  tokens = computable(spec, tokens);
  StepShape& shape = next.shape;
  shape = prompt_steps(spec, shape, requests, tokens).step;
  if (requests > 1 && shape.prefill_tokens < tokens) {
    const auto first = static_cast<std::int32_t>((requests * shape.prefill_tokens + tokens - 1) / tokens);
    const std::int64_t theirs = std::max(tokens * first / requests, shape.prefill_tokens);
    next.waiting_requests += requests - first;
    next.waiting_prompt_tokens += tokens - theirs;
    shape.prefill_requests = first;
    tokens = theirs;
  }
  next.unfinished_prompt_tokens = tokens - shape.prefill_tokens;
  next.oldest_scheduled_arrival = requests > 0 ? std::min(oldest, next.start) : Instant::never();
}

struct Queue {
  std::int32_t requests = 0;
  std::int64_t tokens = 0;
};

/// The part of a queue of equal prompts for which the engine that runs `running` requests, and its KV cache, have room;
/// at least one prompt if it runs none.
Queue fitting(const Queue& all, const InstanceSpec& spec, std::int64_t kv_tokens, std::int32_t running) {
  if (all.requests == 0) return all;
  std::int32_t taken = std::min(all.requests, std::max(spec.max_requests - running, 0));
  if (spec.kv_capacity_tokens > 0 && all.tokens > 0) {
    const std::int64_t room = std::max<std::int64_t>(spec.kv_capacity_tokens - kv_tokens, 0);
    if (all.tokens > room) taken = std::min(taken, static_cast<std::int32_t>(all.requests * room / all.tokens));
  }
  taken = std::max(taken, running == 0 ? 1 : 0);
  return {taken, all.tokens * taken / all.requests};
}

/// Of the `tokens` of prompts, those that are still to be computed this long after the first of their steps began: at
/// least a tenth, since they have not been answered; all of them without a latency belief. None: by its prediction the
/// last step would have ended long ago.
std::optional<std::int64_t> not_computed_yet(const PromptSteps& its, std::int64_t tokens, const InstanceSpec& spec,
                                             MegaHertz clock, Span since) {
  constexpr double kLeast = 0.1, kLong = 2.0;
  if (spec.beliefs.latency == nullptr) return tokens;
  const MegaHertz at = clock == MegaHertz{0} ? spec.gpu.clock_max : clock;  // unknown: not locked
  const double whole = spec.beliefs.latency->step_time(its.step, at).seconds() * its.steps;
  if (whole <= 0.0) return tokens;
  if (since.seconds() > kLong * whole) return std::nullopt;
  const double left = std::clamp(1.0 - since.seconds() / whole, kLeast, 1.0);
  return std::max<std::int64_t>(1, std::llround(left * static_cast<double>(tokens)));
}

}  // namespace

StepReport next_step(const StepReport& ended, const InstanceSpec& spec, const std::optional<InstanceWork>& work) {
  if (ended.moment == StepMoment::Starts) return ended;
  StepReport next = ended;
  ++next.sequence;
  const StepShape& was = ended.shape;
  StepShape& shape = next.shape;
  shape = {};
  next.kv_tokens = ended.kv_tokens + was.prefill_tokens + was.decode_requests;
  // Prompts that are neither queued nor answered are split over several steps.
  const bool computes = spec.role != Role::Decode;
  const std::int32_t split =
      work && computes ? std::clamp(work->prompts - ended.waiting_requests, 0, was.prefill_requests) : 0;
  if (spec.role != Role::Prefill) {
    shape.decode_requests = was.decode_requests + (was.prefill_requests - split);
    shape.decode_kv_tokens = was.decode_kv_tokens + was.decode_requests + was.prefill_tokens;
    const std::int32_t others = split + ended.waiting_requests;
    const std::int32_t left = work ? std::max(0, work->requests - others) : shape.decode_requests;
    if (left < shape.decode_requests) {
      const std::int64_t stays = shape.decode_kv_tokens * left / shape.decode_requests;
      next.kv_tokens = std::max<std::int64_t>(next.kv_tokens - (shape.decode_kv_tokens - stays), 0);
      shape.decode_kv_tokens = stays;
      shape.decode_requests = left;
    }
    // Decodes that a step with prompts alone made wait go on.
    if (const std::int32_t decodes = work ? work->requests - work->prompts : 0;
        spec.decode_tokens == 0 && decodes > shape.decode_requests) {
      shape.decode_requests = decodes;
      shape.decode_kv_tokens = next.kv_tokens;
    }
  }
  const Queue taken = fitting({ended.waiting_requests, ended.waiting_prompt_tokens}, spec, next.kv_tokens,
                              split + shape.decode_requests);
  next.waiting_requests -= taken.requests;
  next.waiting_prompt_tokens -= taken.tokens;
  if (computes) {
    const std::int64_t rest =
        split > 0 ? std::clamp<std::int64_t>(work->prompt_tokens - ended.waiting_prompt_tokens, 1, was.prefill_tokens)
                  : 0;
    put_prompts(next, spec, taken.requests + split, taken.tokens + rest, work ? work->oldest : next.start);
  } else {  // a decode instance has no queue of prompts: waiting requests bring their KV cache
    shape.decode_requests += taken.requests;
    shape.decode_kv_tokens += taken.tokens;
    next.oldest_scheduled_arrival = Instant::never();
  }
  return next;
}

StepReport seen_by_streams(const InstanceWork& work, const InstanceSpec& spec, MegaHertz clock, Instant now) {
  StepReport seen;
  seen.start = now;
  seen.kv_tokens = work.context_tokens - work.prompt_tokens + work.output_tokens;
  seen.shape.decode_requests = work.requests - work.prompts;
  seen.shape.decode_kv_tokens = seen.kv_tokens;
  const std::int32_t decodes = seen.shape.decode_requests;
  const Queue taken = fitting({work.computing, work.computing_tokens}, spec, seen.kv_tokens, decodes);
  seen.waiting_requests = work.prompts - taken.requests;
  seen.waiting_prompt_tokens = work.prompt_tokens - taken.tokens;
  if (spec.role == Role::Decode) {  // requests bring their KV cache
    seen.shape.decode_requests += taken.requests;
    seen.shape.decode_kv_tokens += taken.tokens;
  } else if (taken.requests > 0) {
    const std::int64_t tokens = computable(spec, taken.tokens);
    const auto left = not_computed_yet(prompt_steps(spec, seen.shape, taken.requests, tokens), tokens, spec, clock,
                                       now - work.computing_since);
    if (left) {
      put_prompts(seen, spec, taken.requests, *left, work.oldest);
    } else {
      seen.waiting_requests = work.prompts;
      seen.waiting_prompt_tokens = work.prompt_tokens;
    }
  }
  return seen;
}

StepReport shown_by_streams(InstanceWork work, const InstanceSpec& spec, MegaHertz clock, Instant now) {
  if (spec.beliefs.latency == nullptr) work.computing = 0, work.computing_tokens = 0;
  return seen_by_streams(work, spec, clock, now);
}

StepReport seen_by_gauges(const LoadGauges& gauges, const InstanceSpec& spec, Instant now) {
  StepReport seen;
  seen.start = now;
  seen.waiting_requests = gauges.waiting.value_or(0);
  const std::int32_t running = gauges.running.value_or(0);
  if (gauges.kv_tokens) {
    seen.kv_tokens = *gauges.kv_tokens;
  } else if (gauges.kv_share) {
    seen.kv_tokens = static_cast<std::int64_t>(*gauges.kv_share * static_cast<double>(spec.kv_capacity_tokens));
  }
  if (spec.role == Role::Prefill) {
    seen.waiting_requests += running;
  } else {
    seen.shape.decode_requests = running;
    seen.shape.decode_kv_tokens = running > 0 ? seen.kv_tokens : 0;
  }
  return seen;
}

StepReport first_step(const StepReport& idle, const InstanceSpec& spec, const InstanceWork& work, Instant now) {
  StepReport next = idle;
  next.start = now;
  next.shape = {};
  next.yield = {};  // already learned from the last report
  next.waiting_requests = 0;
  next.waiting_prompt_tokens = 0;
  next.kv_tokens =
      spec.role == Role::Decode ? work.context_tokens : 0;  // the KV cache was empty, whatever the last step reported
  if (spec.role == Role::Decode) {
    next.shape.decode_requests = work.requests;
    next.shape.decode_kv_tokens = work.context_tokens;
    next.oldest_scheduled_arrival = Instant::never();
  } else {
    put_prompts(next, spec, work.prompts, work.prompt_tokens, work.oldest);
  }
  return next;
}

}  // namespace wattle::control
