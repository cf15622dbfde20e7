#include "planner/manager_links.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "net/log.h"
#include "planner/given_plan.h"

namespace wattle::planner {

void ManagerLinks::ask(Part& part, const Observation& seen) {
  if (part.last) part.last->steps.clear();  // begun, or superseded by what is observed now
  const auto answer = caller_.call(part.url, "POST", "/observe", to_json(seen));
  std::string problem;
  if (answer && answer->status == 200) {
    auto plan = part_from_json(answer->body, seen.now);
    if (plan) {
      part.last = std::move(*plan);
    } else {
      problem = plan.error().message();
    }
  } else {
    problem = answer ? answer->body : answer.error().message();
  }
  if (problem.empty() == part.answers) return;
  part.answers = problem.empty();
  if (part.answers) net::log_line(net::LogLevel::Info, "a manager answers again", {{"manager", part.url}});
  if (!part.answers) {
    net::log_line(net::LogLevel::Warning, "a manager does not answer; its last plan holds",
                  {{"manager", part.url}, {"error", problem}});
  }
}

std::optional<Plan> ManagerLinks::plan(const Observation& seen) {
  std::vector<const Plan*> parts;
  for (Part& part : parts_) {
    ask(part, seen);
    if (!part.last) continue;
    const auto shared = shared_pool(parts, *part.last);
    if (shared && shared != part.shared) {
      net::log_line(net::LogLevel::Error, "two managers plan one pool (--pools); what the second says is not heard",
                    {{"pool", shared->value()}, {"second", part.url}});
    }
    part.shared = shared;
    if (!shared) parts.push_back(&*part.last);
  }
  if (parts.empty()) return std::nullopt;
  return merged(parts, seen.view());
}

std::optional<PoolId> shared_pool(const std::vector<const Plan*>& before, const Plan& part) {
  for (const PlanLevel& level : part.levels) {
    if (level.pool && std::ranges::any_of(before, [&](const Plan* plan) {
          return std::ranges::find(plan->levels, level.pool, &PlanLevel::pool) != plan->levels.end();
        })) {
      return level.pool;
    }
  }
  return std::nullopt;
}

Plan merged(const std::vector<const Plan*>& parts, const policy::ScalingView& view) {
  std::set<PoolId> planned;
  std::set<ClassId> routed;
  for (const Plan* part : parts) {
    for (const PlanLevel& level : part->levels) {
      if (level.pool) planned.insert(*level.pool);
    }
    for (const PoolWeight& w : part->weights) routed.insert(w.request_class);
  }
  Plan all = as_it_is(view, [&](PoolId pool) { return !planned.contains(pool); });
  std::erase_if(all.weights, [&](const PoolWeight& w) { return routed.contains(w.request_class); });
  std::erase_if(all.clocks, [&](const ClockRange& range) { return planned.contains(range.pool); });
  for (const Plan* part : parts) {
    std::ranges::copy(part->instances, std::back_inserter(all.instances));
    std::ranges::copy(part->weights, std::back_inserter(all.weights));
    std::ranges::copy(part->clocks, std::back_inserter(all.clocks));
    std::ranges::copy(part->steps, std::back_inserter(all.steps));
    std::ranges::copy(part->levels, std::back_inserter(all.levels));
    all.reason = part->reason;
  }
  // A part that is not new may send requests to a pool that another one staffs no more: its others get them.
  const auto staffed = [&](PoolId pool) {
    return std::ranges::any_of(all.instances,
                               [&](const PlanTarget& t) { return t.count > 0 && (!t.pool || *t.pool == pool); });
  };
  std::map<ClassId, double> wanted, left;
  for (const PoolWeight& w : all.weights) {
    wanted[w.request_class] += w.weight;
    if (staffed(w.pool)) left[w.request_class] += w.weight;
  }
  std::erase_if(all.weights, [&](const PoolWeight& w) { return !staffed(w.pool); });
  for (PoolWeight& w : all.weights) {
    if (left[w.request_class] > 0.0) w.weight *= wanted[w.request_class] / left[w.request_class];
  }
  return all;
}

}  // namespace wattle::planner
