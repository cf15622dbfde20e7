#include "policy/routing/best_batch.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "model/prompt_steps.h"
#include "policy/hand_over.h"
#include "policy/routing/decodes_bound.h"

namespace wattle::policy {

namespace {

constexpr std::int32_t kMost = 1024;  ///< requests of a batch
constexpr double kKvShare = 0.7;      ///< share of the KV cache that a new batch may take, because contexts grow
constexpr Span kKept = Span::s(60);   ///< for which best batches are used again: predictors learn
constexpr std::size_t kMostContexts = 64;
constexpr std::size_t kMostKept = 256;  ///< at each

StepShape decodes(std::int32_t requests, std::int64_t context) {
  StepShape shape;
  shape.decode_requests = requests;
  shape.decode_kv_tokens = requests * context;
  return shape;
}

/// The largest batch, up to `most`, with a step within `limit`; 0: none.
std::int32_t largest(const LatencyModel& latency, MegaHertz clock, std::int64_t context, std::int32_t most,
                     Span limit) {
  std::int32_t within = 0;
  std::int32_t beyond = most + 1;
  while (beyond - within > 1) {
    const std::int32_t middle = within + (beyond - within) / 2;
    (latency.step_time(decodes(middle, context), clock) <= limit ? within : beyond) = middle;
  }
  return within;
}

/// Up to the next number of six binary digits and zeros: what follows from a mean context is worth keeping.
std::int64_t rounded(std::int64_t context) {
  const auto digits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(context)));
  const std::int64_t unit = std::int64_t{1} << std::max(0, digits - 6);
  return (context + unit - 1) / unit * unit;
}

/// The objective for mean gaps; max(): none.
Span gap_of(const InstanceView& view) {
  return std::min(view.spec->slo.mean_gap().value_or(Span::max()), view.mean_gap);
}

std::int32_t requests_of(const InstanceView& view) {
  return std::max(view.assigned_requests, view.step.shape.decode_requests);
}

}  // namespace

BestBatch::BestBatch(const BestBatchOptions& options, ClocksOfInstances clocks)
    : options_(options), clocks_(std::move(clocks)), margin_(std::max(options_.overload_margin, clocks_.margin)) {}

void BestBatch::observe(const Event& event, Instant) {
  if (const auto* gone = std::get_if<event::Gone>(&event)) {
    std::erase_if(borne_, [&](const Borne& of) { return of.spec == gone->instance.spec; });
    std::erase_if(ran_, [&](const Ran& of) { return of.id == gone->instance.id; });
    bests_.clear();
    return;
  }
  if (const auto* left = std::get_if<event::Left>(&event)) {
    if (left->outcome.fate != Fate::Finished) return;
    Traffic& of = traffic_of(left->outcome.request);
    const double kept = std::min(1.0, (kHandOvers - 1.0) / std::max(of.ended, 1.0));
    of.ended = kept * of.ended + 1.0;
    of.tokens = kept * of.tokens + left->outcome.output_tokens;
    return;
  }
  const auto* handed = std::get_if<event::HandedOver>(&event);
  if (handed == nullptr || options_.late_handovers <= 0.0 || handed->wait <= Span()) return;
  const InstanceSpec& spec = *handed->instance.spec;
  if (!spec.slo.ttft || spec.beliefs.latency == nullptr) return;
  const Span left = Span::from_seconds(spec.slo.ttft->seconds() * (1.0 - margin_)) - handed->age;
  const auto ran = std::ranges::lower_bound(ran_, handed->instance.id, {}, &Ran::id);
  if (ran == ran_.end() || ran->id != handed->instance.id) return;
  const Span step = spec.beliefs.latency->step_time(ran->shape, ran->clock);
  // Nothing would have saved one that was late before; it says nothing of steps.
  if (left <= Span() || step <= Span() || step > kLongestBelievable) return;
  auto of = std::ranges::find(borne_, &spec, &Borne::spec);
  if (of == borne_.end()) of = borne_.insert(of, {&spec, RecentSpans(kHandOvers)});
  of->steps.add(step_borne(left, handed->wait, step));
}

BestBatch::Best BestBatch::best(const InstanceView& view, const Load& load, double margin) const {
  const InstanceSpec& spec = *view.spec;
  Best best{.spec = &spec, .margin = margin, .gap = gap_of(view), .top = view.clock_commanded};
  const LatencyModel* latency = spec.beliefs.latency;
  const PowerModel* power = spec.beliefs.power;
  if (latency == nullptr || power == nullptr || best.gap == Span::max()) return best;
  best.limit = std::min(reserve(best.gap, best.margin), kLongestBelievable);
  if (!clocks_.clocks.empty()) best.top = clocks_.clocks.back().on(spec);
  if (const auto of = std::ranges::find(borne_, &spec, &Borne::spec); of != borne_.end()) {
    const Span anyway = latency->step_time(decodes(load.even, load.context), best.top);
    best.limit = std::min(best.limit, of->steps.most_beyond(options_.late_handovers, anyway));
  }
  std::int64_t most = std::min(kMost, spec.max_requests);
  if (spec.kv_capacity_tokens > 0) {
    most = std::min(most,
                    static_cast<std::int64_t>(kKvShare * static_cast<double>(spec.kv_capacity_tokens)) / load.context);
  }
  const auto draws = [&](const StepShape& shape, MegaHertz clock) {
    return static_cast<double>(power->step_power(shape, clock).value());
  };
  const auto consider = [&](MegaHertz clock, double idle) {
    const std::int32_t batch = largest(*latency, clock, load.context, static_cast<std::int32_t>(most), best.limit);
    if (batch == 0) return;
    const StepShape shape = decodes(batch, load.context);
    const double step_s = latency->step_time(shape, clock).seconds();
    const double cost = (draws(shape, clock) - idle) * step_s / batch;
    if (cost >= best.cost) return;
    best.batch = batch;
    best.cost = cost;
    best.per_s = batch / step_s * (1.0 - margin) / (1.0 - margin_);
  };
  if (clocks_.clocks.empty()) {
    consider(best.top, draws({}, best.top));
    return best;
  }
  const double idle = draws({}, clocks_.clocks.front().on(spec));
  for (const ClockSetting& clock : clocks_.clocks) consider(clock.on(spec), idle);
  return best;
}

bool BestBatch::takes_prompt(const InstanceView& view, const Request& request, const Load& load,
                             const Best& best) const {
  const InstanceSpec& spec = *view.spec;
  const LatencyModel& latency = *spec.beliefs.latency;  // without it there is no best batch to fit into
  const StepShape& now = view.step.shape;
  if (spec.slo.e2e && view.mean_gap == Span::max()) return false;
  const bool others = view.unanswered_prompt_tokens > 0;
  const std::int64_t prompts = 1 + (others ? std::max(1, view.assigned_requests - now.decode_requests) : 0);
  const PromptSteps with = prompt_steps(spec, now, prompts, view.unanswered_prompt_tokens + request.prompt_tokens);
  const double all_s = latency.step_time(with.step, best.top).seconds() * with.steps;
  if (spec.slo.ttft) {
    const Span present = now.idle() ? Span() : latency.step_time(now, best.top);
    if (present.seconds() + all_s > reserve(spec.slo.ttft, best.margin).seconds() / 2.0) return false;
  }
  if (view.assigned_requests == 0) return true;
  const StepShape later = decodes(view.assigned_requests + 1, load.context);
  const bool alone = spec.decode_tokens == 0;
  double gap_s = reserve(best.gap, best.margin).seconds();
  if (alone) gap_s -= latency.step_time(later, best.top).seconds();
  if ((alone ? all_s : all_s / with.steps) > gap_s) return false;
  const std::int32_t more = view.assigned_requests + 1 - load.even;
  if (more <= 0) return true;
  const auto computed = [&](std::int32_t tokens) { return prompt_steps(spec, later, 1, tokens); };
  const auto first_late = std::ranges::partition_point(load.prompts, [&](std::int32_t tokens) {
    const PromptSteps its = computed(tokens);
    return latency.step_time(its.step, best.top).seconds() * (alone ? its.steps : 1.0) <= gap_s;
  });
  auto late = static_cast<double>(load.prompts.end() - first_late);  // gaps of each request beside them
  if (!alone && load.prompts.back() > spec.max_step_tokens - spec.decode_tokens * later.decode_requests) {
    late = 0.0;
    for (const std::int32_t tokens : std::ranges::subrange(first_late, load.prompts.end())) {
      late += computed(tokens).steps;
    }
  }
  return late * more <= options_.late_gaps * load.answer * static_cast<double>(load.prompts.size());
}

bool BestBatch::takes(const InstanceView& view, const Request& request, const Load& load, const Best& best) const {
  StepShape with = std::ranges::lower_bound(ran_, view.id, {}, &Ran::id)->shape;
  ++with.decode_requests;
  with.decode_kv_tokens += request.prompt_tokens + 1;  // its prompt and the token that prefill gave it
  // Its own contexts may be longer than the mean.
  return !overfull(view, with, best.limit, best.top, view.spec->beliefs.latency) &&
         (view.spec->role == Role::Decode || takes_prompt(view, request, load, best));
}

const BestBatch::Best& BestBatch::best_of(const InstanceView& view, const Load& load, double margin) {
  std::vector<Best>& bests = bests_[present_].bests;
  const auto known = std::ranges::find_if(bests, [&](const Best& best) {
    return best.spec == view.spec && best.margin == margin && best.gap == gap_of(view) &&
           (!clocks_.clocks.empty() || best.top == view.clock_commanded);
  });
  return known != bests.end() ? *known : bests.emplace_back(best(view, load, margin));
}

void BestBatch::choose_bests(const Load& load, Instant now) {
  // First tokens bound steps by what an even load would have taken, which changes with every request.
  if (now - bests_since_ >= kKept || bests_.size() >= kMostContexts || !borne_.empty()) {
    bests_.clear();
    bests_since_ = now;
  }
  const auto known = std::ranges::find(bests_, load.context, &BestsAt::context);
  present_ = static_cast<std::size_t>(known - bests_.begin());
  if (known == bests_.end()) {
    bests_.push_back({load.context});
  } else if (known->bests.size() >= kMostKept) {  // margins of slow instances vary
    known->bests.clear();
  }
}

BestBatch::Load BestBatch::look_at(const Request& request, std::span<const InstanceView* const> candidates,
                                   Instant now) {
  std::int64_t requests = 1;
  std::int64_t running = 1;
  std::int64_t kv_tokens = request.prompt_tokens + 1;
  std::int64_t prompt_tokens = request.prompt_tokens;
  std::size_t i = 0;
  for (const InstanceView* candidate : candidates) {  // ascending by id, as ran_ is
    const StepShape shape = decodes_bound(*candidate);
    running += shape.decode_requests;
    kv_tokens += shape.decode_kv_tokens;
    if (shape.decode_requests > 0) prompt_tokens += prompt_tokens_of(*candidate, shape.decode_requests);
    requests += requests_of(*candidate);
    while (i < ran_.size() && ran_[i].id < candidate->id) ++i;
    const Ran ran{candidate->id, shape, candidate->clock_commanded};
    if (i < ran_.size() && ran_[i].id == candidate->id) {
      ran_[i] = ran;
    } else {
      ran_.insert(ran_.begin() + static_cast<std::ptrdiff_t>(i), ran);
    }
  }
  const auto instances = std::ssize(candidates);
  // Running requests count with their tokens so far; while few have ended, answers count as long.
  Traffic& traffic = traffic_of(request);
  const auto given = static_cast<double>(std::max<std::int64_t>(kv_tokens - prompt_tokens, 0));
  const double answer = (traffic.tokens + given) / (traffic.ended + 1.0);
  traffic.add(request.prompt_tokens, now);
  const double within_s = (now - traffic.came[traffic.oldest]).seconds();
  const auto came = static_cast<double>(traffic.came.size() - 1);
  return {.per_s = within_s > 0.0 ? came / within_s * answer : 0.0,
          .even = static_cast<std::int32_t>((requests + instances - 1) / instances),
          .context = rounded(std::max(
              {std::int64_t{1}, kv_tokens / running, prompt_tokens / running + static_cast<std::int64_t>(answer)})),
          .answer = answer,
          .prompts = traffic.by_length};
}

void BestBatch::Traffic::add(std::int32_t prompt_tokens, Instant now) {
  if (came.size() < kHandOvers) {
    came.push_back(now);
    prompts.push_back(prompt_tokens);
  } else {
    by_length.erase(std::ranges::lower_bound(by_length, prompts[oldest]));
    prompts[oldest] = prompt_tokens;
    came[std::exchange(oldest, (oldest + 1) % kHandOvers)] = now;
  }
  by_length.insert(std::ranges::upper_bound(by_length, prompt_tokens), prompt_tokens);
}

BestBatch::Traffic& BestBatch::traffic_of(const Request& request) {
  const auto pool = static_cast<std::size_t>(request.pool.value());
  if (pool >= traffic_.size()) traffic_.resize(pool + 1);
  return traffic_[pool];
}

RouteDecision BestBatch::route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                               RandomStream& random) {
  const Role role = candidates.front()->spec->role;
  if (role == Role::Prefill) return spread_.route(request, candidates, now, random);
  const Load load = look_at(request, candidates, now);
  choose_bests(load, now);
  const auto its_best = [&](const InstanceView& view) -> const Best& {
    return best_of(view, load, std::max(margin_, 1.0 - 1.0 / view.pace.slowed(now)));
  };
  // What fits nowhere is shared as if no instance were slow.
  const auto share_of = [&](const InstanceView& view, std::int32_t requests) {
    return (requests + 1.0) / std::max(best_of(view, load, margin_).batch, 1);
  };
  double carried = 0.0;
  offers_.clear();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Best& best = its_best(*candidates[i]);
    const std::int32_t requests = requests_of(*candidates[i]);
    carried += best.per_s;
    if (requests < best.batch) offers_.push_back({best.cost, (requests + 1.0) / best.batch, i});
  }
  // A load that fills all instances is spread.
  if (load.per_s >= carried) offers_.clear();
  // The cheapest kind, of these the fullest, then the lowest id; whether one takes the request is asked in this order.
  const auto later = [](const Offer& one, const Offer& other) {
    if (one.cost != other.cost) return one.cost > other.cost;
    return one.share != other.share ? one.share < other.share : one.candidate > other.candidate;
  };
  std::ranges::make_heap(offers_, later);
  for (; !offers_.empty(); offers_.pop_back()) {
    std::ranges::pop_heap(offers_, later);
    const InstanceView& candidate = *candidates[offers_.back().candidate];
    if (!takes(candidate, request, load, its_best(candidate))) continue;
    return {candidate.id, "fits into the batch of least energy"};
  }
  if (role == Role::Colocated) {
    return spread_.route_by(request, candidates,
                            [&](const InstanceView& view) { return share_of(view, view.assigned_requests); });
  }
  const InstanceView* least_full = *std::ranges::min_element(
      candidates, {}, [&](const InstanceView* view) { return share_of(*view, requests_of(*view)); });
  return {least_full->id, "fits nowhere: the least full"};
}

}  // namespace wattle::policy
