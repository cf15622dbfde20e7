#include "policy/scaling/nested.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace wattle::policy {

namespace {

bool same(const std::optional<Mandate>& a, const std::optional<Mandate>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->gpus == b->gpus && a->load_per_s == b->load_per_s && a->least == b->least && a->most == b->most;
}

std::vector<ShapeCount> count(std::span<const FleetMember> members, std::size_t shapes) {
  std::vector<ShapeCount> counts(shapes);
  for (const FleetMember& m : members) {
    ShapeCount& c = counts.at(m.shape);
    if (m.phase == Phase::Draining) ++c.draining;
    if (m.phase == Phase::Spawning || m.phase == Phase::Warming) ++c.coming;
    if (m.phase != Phase::Serving) continue;
    ++c.serving;
    c.serving_since = std::max(c.serving_since, m.since);
  }
  return counts;
}

}  // namespace

NestedPlanner::NestedPlanner(std::vector<PlannerLevel> levels, std::vector<std::int32_t> gpus_of_shape)
    : levels_(std::move(levels)), gpus_of_shape_(std::move(gpus_of_shape)) {
  WATTLE_CHECK(!levels_.empty(), "nested planners have a top");
  for (const PlannerLevel& level : levels_) WATTLE_CHECK(level.epoch > Span(), "a planner has an epoch");
}

NestedPlanner::Seat& NestedPlanner::seat(std::size_t level, std::optional<PoolId> pool) {
  const auto found = std::ranges::find_if(seats_, [&](const auto& s) { return s->level == level && s->pool == pool; });
  if (found != seats_.end()) return **found;
  auto made = std::make_unique<Seat>();
  made->level = level;
  made->pool = pool;
  made->planner = levels_[level].make(pool);
  // Above before below, so that what is said below can stand in its place.
  const auto place = std::ranges::find_if(seats_, [level](const auto& s) { return s->level > level; });
  return **seats_.insert(place, std::move(made));
}

void NestedPlanner::ask(Seat& seat, const ScalingView& view) {
  std::vector<FleetMember> members;
  for (const FleetMember& m : view.members) {
    if (!seat.pool || m.pool == *seat.pool) members.push_back(m);
  }
  std::vector<ClockRange> clocks;
  for (const ClockRange& range : view.clocks) {
    if (!seat.pool || range.pool == *seat.pool) clocks.push_back(range);
  }
  std::vector<double> rates(seat.arrivals.size(), 0.0);
  const double seconds = seat.counted.seconds();
  for (std::size_t c = 0; c < rates.size() && seconds > 0.0; ++c) rates[c] = seat.arrivals[c] / seconds;
  const auto counts = count(members, gpus_of_shape_.size());
  seat.newest =
      seat.planner->plan({view.now + levels_[seat.level].ahead, rates, counts, members,
                          seat.given ? &*seat.given : nullptr, view.nodes, view.weights, clocks, &seat.turned_out});
  seat.made = view.now;
  seat.asked = true;
  seat.arrivals.assign(seat.arrivals.size(), 0.0);
  seat.turned_out = {};
  seat.counted = Span();
}

void NestedPlanner::visit(std::size_t level, std::optional<PoolId> pool, const std::optional<Mandate>& given,
                          const ScalingView& view) {
  Seat& it = seat(level, pool);
  it.current = true;
  const Instant by_its_clock = view.now + levels_[level].ahead;
  const bool changed = !same(it.given, given);
  it.given = given;
  if (!it.asked || changed || by_its_clock >= it.due) {
    // The first time there is no epoch yet to average over but the view's own.
    if (!it.asked && it.counted == Span()) {
      it.arrivals.assign(view.rate_per_s.begin(), view.rate_per_s.end());
      it.counted = Span::s(1);
    }
    ask(it, view);
    it.due = by_its_clock + levels_[level].epoch;
  }
  if (level + 1 == levels_.size()) return;
  for (const Mandate& below : std::vector(it.newest.passed)) {
    visit(level + 1, below.pool ? below.pool : pool, below, view);
  }
}

void NestedPlanner::merge(const Seat& seat, const ScalingView& view, Plan& into) const {
  const Plan& plan = seat.newest;
  PlanLevel level{levels_[seat.level].name, seat.pool, seat.made, 0, seat.given, plan.passed, plan.reason};
  for (PlanTarget target : plan.instances) {
    if (target.shape < gpus_of_shape_.size()) level.gpus += std::int64_t{target.count} * gpus_of_shape_[target.shape];
  }
  into.levels.push_back(std::move(level));
  if (seat.pool && !plan.instances.empty()) {
    std::erase_if(into.instances, [&](const PlanTarget& t) { return t.pool == seat.pool; });
  }
  for (PlanTarget target : plan.instances) {
    if (seat.pool) target.pool = seat.pool;
    into.instances.push_back(target);
  }
  if (seat.level == 0) into.weights = plan.weights;
  for (ClockRange range : plan.clocks) {
    if (seat.pool) range.pool = *seat.pool;
    std::erase_if(into.clocks, [&](const ClockRange& r) { return r.pool == range.pool; });
    into.clocks.push_back(range);
  }
  for (const PlanStep& step : plan.steps) {
    const auto waits = [&](InstanceId id) {
      const auto m = std::ranges::find(view.members, id, &FleetMember::id);
      return m != view.members.end() && m->phase == Phase::Serving && !m->changing;
    };
    const bool fresh = seat.made == view.now;
    if (step.kind == StepKind::Reroute ? fresh : std::ranges::all_of(step.from, waits)) into.steps.push_back(step);
  }
}

Plan NestedPlanner::plan(const ScalingView& view) {
  const Span passed = std::max(view.now - last_, Span());
  last_ = view.now;
  for (const auto& seat : seats_) {
    seat->current = false;
    seat->arrivals.resize(std::max(seat->arrivals.size(), view.rate_per_s.size()), 0.0);
    for (std::size_t c = 0; c < view.rate_per_s.size(); ++c) {
      seat->arrivals[c] += view.rate_per_s[c] * passed.seconds();
    }
    if (view.turned_out != nullptr) seat->turned_out.add(*view.turned_out);
    seat->counted += passed;
  }
  visit(0, std::nullopt, view.given != nullptr ? std::optional(*view.given) : std::nullopt, view);
  std::erase_if(seats_, [](const auto& seat) { return !seat->current; });
  Plan all;
  for (const auto& seat : seats_) merge(*seat, view, all);
  all.given = seats_.front()->given;
  all.reason = seats_.front()->newest.reason;
  return all;
}

}  // namespace wattle::policy
