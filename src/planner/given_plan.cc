#include "planner/given_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "journal/plan_reader.h"

namespace wattle::planner {

namespace {
constexpr std::size_t kMostPools = 4096;  ///< as the gateway takes them
}  // namespace

bool has_pool(PoolId pool, std::size_t pools) {
  return pool.value() >= 0 && static_cast<std::size_t>(pool.value()) < (pools == 0 ? kMostPools : pools);
}

Plan as_it_is(const policy::ScalingView& view, const std::function<bool(PoolId)>& of) {
  Plan plan;
  for (std::size_t i = 0; i < view.members.size(); ++i) {
    const FleetMember& m = view.members[i];
    const auto replaces = [&](const FleetMember& younger) {
      return younger.node == m.node && std::ranges::find_first_of(younger.gpus, m.gpus) != younger.gpus.end();
    };
    if ((of && !of(m.pool)) || std::ranges::any_of(view.members.subspan(i + 1), replaces)) continue;
    plan.instances.push_back({m.shape, 1, {}, m.pool});
  }
  plan.weights.assign(view.weights.begin(), view.weights.end());
  plan.clocks.assign(view.clocks.begin(), view.clocks.end());
  return plan;
}

namespace {

using Json = nlohmann::json;
using Keys = std::vector<std::string>;

/// Null, or the first key that is none of `known`.
const std::string* unknown_in(const Json& object, const Keys& known) {
  if (!object.is_object()) return nullptr;
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) {
    if (std::ranges::find(known, key) == known.end()) return &key;
  }
  return nullptr;
}

/// What the journal writes of a plan, so that one can be handed in again.
Result<void> check_keys(const Json& plan) {
  static const Keys kPlan{"instances", "weights", "clocks", "steps", "given", "passed", "levels", "reason", "sound"};
  static const std::array<std::pair<const char*, Keys>, 4> kLists{
      {{"instances", {"shape", "count", "node", "pool"}},
       {"weights", {"class", "pool", "weight"}},
       {"clocks", {"pool", "least_mhz", "most_mhz"}},
       {"steps", {"kind", "from", "to", "node", "pool", "serves_on", "cost_j", "cost_s", "lost_load_per_s"}}}};
  const auto unknown = [](const std::string& key, const Keys& known) {
    return bad_input("plan", fmt::format("{} is not known; known: {}", key, fmt::join(known, ", ")));
  };
  if (const auto* key = unknown_in(plan, kPlan)) return unknown(*key, kPlan);
  for (const auto& [list, known] : kLists) {
    const Json items = plan.value(list, Json::array());
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (const auto* key = unknown_in(items[i], known)) {
        return unknown(fmt::format("{}[{}].{}", list, i, *key), known);
      }
    }
  }
  return {};
}

}  // namespace

Result<Plan> given_plan_from_json(std::string_view json, std::size_t shapes, std::size_t pools) {
  auto plan = journal::plan_from_json(json);
  if (!plan) return plan;
  if (auto ok = check_keys(Json::parse(json, nullptr, false)); !ok) return std::unexpected(ok.error());
  if (plan->instances.empty()) return bad_input("plan", "instances must be a list of at least one {shape, count}");
  const auto has = [&](PoolId pool) { return has_pool(pool, pools); };
  const auto no_pool = [&](const char* list, std::size_t i) {
    return bad_input(
        "plan", fmt::format("{}[{}].pool: there are pools 0 to {}", list, i, (pools == 0 ? kMostPools : pools) - 1));
  };
  for (std::size_t i = 0; i < plan->instances.size(); ++i) {
    const PlanTarget& target = plan->instances[i];
    if (target.shape >= shapes) {
      return bad_input("plan", fmt::format("instances[{}].shape: there are shapes 0 to {}, the scenario's [[fleet]] "
                                           "entries and then its pairs",
                                           i, shapes - 1));
    }
    if (target.pool && !has(*target.pool)) return no_pool("instances", i);
  }
  for (std::size_t i = 0; i < plan->weights.size(); ++i) {
    if (!has(plan->weights[i].pool)) return no_pool("weights", i);
  }
  for (std::size_t i = 0; i < plan->clocks.size(); ++i) {
    if (!has(plan->clocks[i].pool)) return no_pool("clocks", i);
  }
  for (std::size_t i = 0; i < plan->steps.size(); ++i) {
    if (plan->steps[i].pool && !has(*plan->steps[i].pool)) return no_pool("steps", i);
  }
  return plan;
}

Plan GivenPlan::plan(const policy::ScalingView& view) {
  const std::lock_guard lock(mutex_);
  fresh_ = false;
  if (!any_) {
    // What it began with: an engine that a node has taken with it comes back elsewhere, or with the node.
    Plan plan = as_it_is(view);
    if (began_.empty()) began_ = plan.instances;
    plan.instances = began_;
    plan.reason = "no plan was given yet: as it began";
    return plan;
  }
  Plan plan = given_;
  std::erase_if(plan.steps, [&](const PlanStep& step) {
    return std::ranges::any_of(step.from, [&](InstanceId id) {
      const auto m = std::ranges::find(view.members, id, &FleetMember::id);
      return m == view.members.end() || m->phase != Phase::Serving;
    });
  });
  return plan;
}

void GivenPlan::give(Plan plan) {
  const std::lock_guard lock(mutex_);
  given_ = std::move(plan);
  any_ = fresh_ = true;
}

bool GivenPlan::fresh() {
  const std::lock_guard lock(mutex_);
  return fresh_;
}

}  // namespace wattle::planner
