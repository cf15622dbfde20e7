#include "policy/routing/eco_route.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "policy/routing/decodes_bound.h"

namespace wattle::policy {

namespace {

/// Position of `requests` among tiles: whether one more begins a tile, and how many have begun. In the first tile
/// (negative), beyond the last and without tiles, each request counts as one.
struct TilePlace {
  bool at_end = false;
  std::int32_t begun = 0;
};

TilePlace place(const std::vector<std::int32_t>& ends, std::int32_t requests) {
  if (ends.empty()) return {false, requests};
  const auto end = std::ranges::lower_bound(ends, requests);
  const auto before = static_cast<std::int32_t>(end - ends.begin());
  if (end == ends.end()) return {true, before + requests - ends.back()};
  return {*end == requests, before == 0 ? requests - *end : before};
}

}  // namespace

std::vector<std::int32_t> tile_ends(const LatencyModel& latency, MegaHertz clock) {
  constexpr std::int32_t kMost = 1025;
  constexpr std::int64_t kContext = 256;
  constexpr double kClear = 0.02;
  std::vector<std::int32_t> ends;
  for (std::int32_t n = 1; n < kMost; ++n) {
    // The same KV tokens on both sides, so that only the requests differ.
    const std::array kv{kContext * n, kContext * n};
    std::array<Span, 2> times;
    latency.decode_times(std::array{n, n + 1}, kv, clock, times);
    const double longer = times[1].seconds() - times[0].seconds();
    if (longer > times[0].seconds() * std::max(1.0 / n, kClear)) ends.push_back(n);
  }
  return ends;
}

EcoRoute::EcoRoute(const EcoRouteOptions& options, ClocksOfInstances clocks)
    : options_(options), clocks_(std::move(clocks)) {}

void EcoRoute::observe(const Event& event, Instant) {
  if (const auto* joined = std::get_if<event::Joined>(&event)) return this->joined(joined->instance);
  if (const auto* gone = std::get_if<event::Gone>(&event)) {
    std::erase_if(members_, [&](const Member& member) { return member.id == gone->instance.id; });
  }
}

const EcoRoute::Known* EcoRoute::known(InstanceId id) const {
  const auto dense = static_cast<std::size_t>(id.value());  // ids are dense as long as no instance has left
  if (dense < members_.size() && members_[dense].id == id) return members_[dense].known.get();
  const auto found = std::ranges::lower_bound(members_, id, {}, &Member::id);
  return found != members_.end() && found->id == id ? found->known.get() : nullptr;
}

void EcoRoute::joined(const InstanceView& view) {
  const InstanceSpec& spec = *view.spec;
  if (spec.role == Role::Prefill || clocks_.clocks.empty()) return;  // no candidate for decodes; as commanded
  std::erase_if(members_, [&](const Member& member) { return member.id == view.id; });
  const auto place = std::ranges::lower_bound(members_, view.id, {}, &Member::id);  // they join in no order
  const auto alike = std::ranges::find(members_, &spec, &Member::spec);
  if (alike != members_.end()) {
    members_.insert(place, {view.id, &spec, alike->known});
    return;
  }
  auto made = std::make_shared<Known>();
  made->rule = make_clock_rule(clocks_.clocks, spec, clocks_.margin, clocks_.raises_in_vain);
  made->latency = spec.beliefs.latency;
  made->itl_limit = make_clock_rule(clocks_.clocks, spec, options_.overload_margin).mean_gap;
  if (options_.borders == Borders::Tiles && spec.beliefs.latency != nullptr) {
    made->tile_ends = tile_ends(*spec.beliefs.latency, made->rule.clocks.front());
  }
  members_.insert(place, {view.id, &spec, std::move(made)});
}

EcoRoute::WhatIf EcoRoute::what_if(const InstanceView& view, const Request& request) const {
  StepShape shape = decodes_bound(view);
  const std::int32_t requests = std::max(view.assigned_requests, shape.decode_requests);  // those that wait, too
  const Known* instance = known(view.id);
  if (instance == nullptr) return {view.clock_commanded, view.clock_commanded, false, requests};
  const ClockRule& rule = instance->rule;
  const LatencyModel* latency = instance->latency;
  const MegaHertz top = rule.clocks.back();
  if (view.telemetry == Telemetry::Lost) return {top, top, false, requests};

  const std::int32_t waiting = view.step.waiting_requests;
  const bool empty = shape.idle() && waiting == 0;
  const MegaHertz now = empty ? rule.clocks.front() : clock_for(rule, shape, waiting, rule.mean_gap, latency).clock;
  ++shape.decode_requests;
  shape.decode_kv_tokens += request.prompt_tokens + 1;  // its prompt and the token that prefill gave it
  const ClockChoice then = clock_for(rule, shape, waiting, rule.mean_gap, latency);
  // Whatever EcoFreq's own margin: with none, a batch that just meets the objective at the top outgrows it by its
  // context.
  const bool over = options_.spare_overloaded && overfull(view, shape, instance->itl_limit, top, latency);
  return {now, then.clock, over, requests};
}

RouteDecision EcoRoute::route(const Request& request, std::span<const InstanceView* const> candidates, Instant,
                              RandomStream&) {
  if (futures_.size() < candidates.size()) futures_.resize(candidates.size());
  std::size_t over = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    futures_[i] = what_if(*candidates[i], request);
    over += futures_[i].over ? 1U : 0U;
  }
  return options_.borders == Borders::Tiles ? by_tiles(candidates, over) : by_cases(candidates, over);
}

RouteDecision EcoRoute::by_tiles(std::span<const InstanceView* const> candidates, std::size_t over) const {
  const bool clocks_count = !options_.spare_overloaded || over == 0;
  const auto order = [&](std::size_t i) {
    const WhatIf& f = futures_[i];
    const Known* instance = known(candidates[i]->id);
    const TilePlace tile = instance != nullptr ? place(instance->tile_ends, f.requests) : TilePlace{false, f.requests};
    // Filling a tile is useless for a batch that no clock can serve: instances near that come last, and the smallest
    // batch gets the request.
    if (!clocks_count) return std::tuple(f.over, false, false, f.requests, 0);
    return std::tuple(false, f.rises(), tile.at_end, tile.begun, -f.requests);
  };
  std::size_t best = 0;
  auto least = order(0);
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (const auto other = order(i); other < least) std::tie(best, least) = std::pair(i, other);
  }
  const InstanceId id = candidates[best]->id;
  if (!clocks_count) return {id, "tiles: some beyond their objective: fewest requests of the others"};
  if (std::get<1>(least)) return {id, "tiles: all rise: fullest of the fewest tiles"};
  return {id, std::get<2>(least) ? "tiles: begins one, no clock rises" : "tiles: fills one, no clock rises"};
}

RouteDecision EcoRoute::by_cases(std::span<const InstanceView* const> candidates, std::size_t over) {
  const bool sparing = options_.spare_overloaded && over < candidates.size();
  const auto spared = [sparing](const WhatIf& f) { return sparing && f.over; };

  std::size_t seen = 0;
  std::size_t rising = 0;
  WhatIf lowest;
  WhatIf highest;
  MegaHertz lowest_steady;  // the lowest clock now among those that do not rise
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const WhatIf& f = futures_[i];
    if (spared(f)) continue;
    if (seen == 0) lowest = highest = f;
    lowest = {std::min(lowest.now, f.now), std::min(lowest.then, f.then)};
    highest = {std::max(highest.now, f.now), std::max(highest.then, f.then)};
    if (f.rises()) {
      ++rising;
    } else if (rising == seen || f.now < lowest_steady) {  // the first that is steady, or a lower one
      lowest_steady = f.now;
    }
    ++seen;
  }

  // The next in turn among those that `fits` holds for.
  const auto pick = [&](const char* reason, auto fits) -> RouteDecision {
    std::size_t chosen = candidates.size();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (spared(futures_[i]) || !fits(futures_[i])) continue;
      if (candidates[i]->id >= next_) {
        chosen = i;
        break;
      }
      if (chosen == candidates.size()) chosen = i;
    }
    const InstanceId id = candidates[chosen]->id;
    next_ = InstanceId{id.value() + 1};
    return {id, reason};
  };

  if (rising == 0) {
    if (lowest.now == highest.now) {
      return pick("1a: all clocks equal: its turn", [](const WhatIf&) { return true; });
    }
    return pick("1b: none rises: lowest clock", [&](const WhatIf& f) { return f.now == lowest.now; });
  }
  if (rising == seen) {
    return pick("3: all rise: lowest resulting clock", [&](const WhatIf& f) { return f.then == lowest.then; });
  }
  if (highest.then.value() - lowest.then.value() <= options_.max_spread.value()) {
    return pick("2a: some rise: lowest clock that stays",
                [&](const WhatIf& f) { return !f.rises() && f.now == lowest_steady; });
  }
  if (options_.beyond_spread == BeyondSpread::LowestCurrent) {
    return pick("2b: wide spread: lowest current clock", [&](const WhatIf& f) { return f.now == lowest.now; });
  }
  return pick("2b: wide spread: lowest resulting clock", [&](const WhatIf& f) { return f.then == lowest.then; });
}

}  // namespace wattle::policy
