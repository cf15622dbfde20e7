// Chooses the pool and the instance of a request.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <vector>

#include "base/check.h"
#include "control/fleet_loop.h"
#include "policy/routing/least_energy.h"

namespace wattle::control {

namespace {

/// Fallback when routing is off or in shadow mode: fewest assigned requests, then the lowest id.
RouteDecision least_assigned(std::span<const InstanceView* const> candidates) {
  const auto* best = *std::ranges::min_element(candidates, {}, &InstanceView::assigned_requests);
  return {best->id, "least assigned"};
}

}  // namespace

const Slo* FleetLoop::held_to(InstanceId id) const {
  const auto i = index_.find(id);
  if (!i) return nullptr;
  const Slo& keeps = held_to_.of(*i);
  return keeps.ttft_varies || !held_to_.strictest(*i) ? &keeps : nullptr;
}

void FleetLoop::sort_by(const Classifier& classes, Instant now) {
  classes_ = classes;
  pools_.sort_by(classes.size(), classes.tiers());
  held_to_.sort_by(objectives_, classes);
  answers_.resize(static_cast<std::size_t>(held_to_.ranks()), AnswerGaps(options_.answers.late));
  reroute(std::vector<PoolWeight>(weights_), now);
}

void FleetLoop::hold_to_pools(Instant now) {
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    const InstanceView& view = instances_[i];
    if (held_to_.serves(i, pools_.tier_of(view.spec->pool))) hold_to(i, now);
  }
}

void FleetLoop::hold_to(std::size_t i, Instant now) {
  instances_[i].mean_gap = held_to_.mean_gap(i);
  port_.held_to(instances_[i].id, held_to_.of(i), now);
}

void FleetLoop::hold_again(Instant now) {
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    if (held_to_.again(i)) hold_to(i, now);
  }
}

void FleetLoop::expect_answer(TierId tier, Instant now) {
  bool first = false;
  for (std::int32_t rank = classes_.tier_rank(tier); rank < held_to_.ranks(); ++rank) {
    answers_[static_cast<std::size_t>(rank)].expect(now);
    if (held_to_.limit(rank) != Span::max()) continue;
    held_to_.limit(rank, AnswerGaps::kNothingKnown);
    first = true;
  }
  if (first) hold_again(now);
}

void FleetLoop::note_answer(const Outcome& outcome, const Slo& slo, Instant now) {
  const InstanceView* const at = find(outcome.decode_instance);
  const Span step = at != nullptr ? present_step(*at) : Span();
  for (std::int32_t rank = classes_.tier_rank(outcome.request.tier); rank < held_to_.ranks(); ++rank) {
    answers_[static_cast<std::size_t>(rank)].add(outcome, *slo.e2e, step);
  }
  constexpr Span kBetween = Span::s(1);
  constexpr double kSmall = 1.0 / 32.0;  // smaller changes are not worth a message to an agent
  if (now - answers_seen_ < kBetween) return;
  answers_seen_ = now;
  for (const InstanceView& view : instances_) refresh(std::array{&view}, now);
  const Span fastest = fastest_step(instances_);
  for (std::int32_t rank = 0; rank < held_to_.ranks(); ++rank) {
    if (held_to_.limit(rank) == Span::max()) continue;  // its tiers have no such objective, or no requests yet
    const Span gap = answers_[static_cast<std::size_t>(rank)].limit(fastest, now);
    const double change = gap.seconds() / held_to_.limit(rank).seconds();
    if (change < 1.0 - kSmall || change > 1.0 + kSmall) held_to_.limit(rank, gap);
  }
  hold_again(now);
}

RouteDecision FleetLoop::pick(journal::DecisionKind kind, Entry& entry, Instant now) {
  if (kind == journal::DecisionKind::RouteDecode) {
    const InstanceView* from = find(entry.prefill);
    if (from != nullptr && from->spec->decode != kNoInstance) return pick_in_pair(*from, entry.request, now);
  }
  if (!pools_.several()) return pick_among(fit_for(entry, of(candidates_, kind)), kind, entry.request, now);
  if (kind == journal::DecisionKind::RoutePrefill) return pick_pool(entry, now);
  const auto own = fit_for(entry, by_pool_[static_cast<std::size_t>(entry.request.pool.value())].decode);
  return pick_among(own.empty() ? fit_for(entry, candidates_.decode) : own, kind, entry.request, now);
}

RouteDecision FleetLoop::pick_pool(Entry& entry, Instant now) {
  Request& request = entry.request;
  const PoolRouter::Order order = pools_.next(request.request_class);
  bool any_stands = false;
  std::optional<PoolId> full;  // the first pool that is at capacity
  for (std::size_t i = 0; i < order.pools.size(); ++i) {
    // Smaller pools only if the request's own and all larger ones have no instance.
    if (any_stands && (i >= order.fit || !options_.emergency.overflow)) break;
    const PoolId pool = order.pools[i];
    const auto candidates = fit_for(entry, by_pool_[static_cast<std::size_t>(pool.value())].prefill);
    if (candidates.empty()) continue;
    any_stands = true;
    if (std::ranges::all_of(candidates, [&](const auto* view) { return policy::overfull(*view, request, now); })) {
      if (!full) full = pool;
      continue;
    }
    const char* reason = i == 0 ? "its class's share" : i < order.fit ? "overflow" : "no pool of its own or larger";
    if (const auto picked = pick_in(pool, candidates, request, reason, now); picked.instance != kNoInstance) {
      return picked;
    }
  }
  if (!full) return {};
  // It queues at its own pool, where the instances' emergency ladder covers it.
  const auto candidates = fit_for(entry, by_pool_[static_cast<std::size_t>(full->value())].prefill);
  return pick_in(*full, candidates, request, "all pools are at capacity: its own", now);
}

RouteDecision FleetLoop::pick_in(PoolId pool, std::span<const InstanceView* const> candidates, Request& request,
                                 const char* reason, Instant now) {
  request.pool = pool;
  const RouteDecision picked = pick_among(candidates, journal::DecisionKind::RoutePrefill, request, now);
  if (picked.instance == kNoInstance) return picked;
  sink_.decision({now, journal::DecisionKind::Pool, Mode::Enforce, request.id, picked.instance, pool.value(), reason});
  return picked;
}

void FleetLoop::narrow(FleetSnapshot& fleet, ClassId request_class) {
  fleet.in_flight_requests = fleet.takers = 0;
  const PoolRouter::Order order = pools_.reach(request_class);
  for (std::size_t i = 0; i < order.pools.size(); ++i) {
    // Others only if none of these has an instance (pick_pool).
    if (fleet.takers > 0 && i >= (options_.emergency.overflow ? order.fit : order.own)) break;
    const auto pool = static_cast<std::size_t>(order.pools[i].value());
    fleet.takers += std::ssize(by_pool_[pool].prefill);
    if (pool < in_flight_.size()) fleet.in_flight_requests += in_flight_[pool];
  }
}

void FleetLoop::count_in_pool(const Entry& entry, int sign) {
  const auto pool = static_cast<std::size_t>(std::max(entry.request.pool.value(), 0));
  if (pool >= in_flight_.size()) in_flight_.resize(pool + 1);
  in_flight_[pool] += sign;
}

// --- pairs ---

/// A pair's prefill instance gets requests only while its decode instance does.
bool FleetLoop::its_pair_accepts(const InstanceView& view) const {
  if (view.spec->decode == kNoInstance) return true;
  const InstanceView* const decode = find(view.spec->decode);
  return decode != nullptr && decode->accepting;
}

/// If a pair's decode instance is gone, requests that were in prefill go to another decode instance of the same pool
/// and site, because KV caches are not moved between sites.
RouteDecision FleetLoop::pick_in_pair(const InstanceView& prefill, const Request& request, Instant now) {
  constexpr auto kKind = journal::DecisionKind::RouteDecode;
  const InstanceView* const own = find(prefill.spec->decode);
  if (own != nullptr && own->accepting) {
    constexpr const char* kReason = "its pair's";
    sink_.decision({now, kKind, Mode::Enforce, request.id, own->id, own->id.value(), kReason});
    return {own->id, kReason};
  }
  fit_.clear();
  std::ranges::copy_if(candidates_.decode, std::back_inserter(fit_), [&](const InstanceView* view) {
    return view->spec->site == prefill.spec->site && view->spec->pool == prefill.spec->pool;
  });
  return pick_among(fit_, kKind, request, now);
}

/// Requests whose prefill has not begun leave a prefill instance that lost its decode instance.
void FleetLoop::end_pairs_with(InstanceId decode, Instant now) {
  std::vector<RequestId> waiting;
  for (const auto& [id, entry] : requests_) {
    const InstanceView* const at = find(entry.prefill);
    const bool theirs = at != nullptr && at->spec->decode == decode && entry.decode == kNoInstance;
    if (theirs && !entry.answered) waiting.push_back(entry.request.id);
  }
  std::ranges::sort(waiting);
  for (const RequestId id : waiting) withdraw(id, {Withdrawal::Again, kNoInstance}, now);
}

RouteDecision FleetLoop::pick_among(std::span<const InstanceView* const> candidates, journal::DecisionKind kind,
                                    const Request& request, Instant now) {
  const bool decode = kind == journal::DecisionKind::RouteDecode;
  auto& slot = decode ? policies_.route_decode : policies_.route_prefill;
  if (candidates.empty()) return {};
  if (!slot.policy || slot.mode == Mode::Off) return least_assigned(candidates);
  if (slot.policy->reads_steps()) refresh(candidates, now);
  const auto decision = slot.policy->route(request, candidates, now, decode ? decode_random_ : prefill_random_);
  sink_.decision({now, kind, slot.mode, request.id, decision.instance, decision.instance.value(), decision.reason});
  if (slot.mode != Mode::Enforce) return least_assigned(candidates);
  WATTLE_CHECK(decision.instance == kNoInstance ||
                   std::ranges::binary_search(candidates, decision.instance, {}, &InstanceView::id),
               "a routing policy picks one of its candidates");
  return decision;
}

}  // namespace wattle::control
