#include "planner/given_plan.h"

#include <algorithm>
#include <array>
#include <utility>

#include "journal/names.h"

namespace wattle::planner {
namespace {

using Json = nlohmann::json;

/// The value of a key, or an exception that says which one and what it should be.
template <typename T>
T get(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) throw std::invalid_argument(std::string(key) + " is missing");
  if (!found->is_number()) throw std::invalid_argument(std::string(key) + " must be a number");
  return found->get<T>();
}

template <typename Id>
std::optional<Id> id_of(const Json& json, const char* key) {
  if (!json.contains(key)) return std::nullopt;
  return Id(get<std::int32_t>(json, key));
}

const Json& list_of(const Json& json, const char* key) {
  static const Json kNone = Json::array();
  const auto found = json.find(key);
  if (found == json.end()) return kNone;
  if (!found->is_array()) throw std::invalid_argument(std::string(key) + " must be a list");
  return *found;
}

PlanStep step_of(const Json& json) {
  PlanStep step;
  const std::string kind = json.value("kind", "");
  const auto known = std::array{StepKind::Start, StepKind::Drain, StepKind::Reshard, StepKind::Move, StepKind::Reroute};
  const auto found = std::ranges::find(known, kind, [](StepKind k) { return journal::name_of(k); });
  if (found == known.end()) {
    throw std::invalid_argument("kind is '" + kind + "'; use start, drain, reshard, move or reroute");
  }
  step.kind = *found;
  for (const Json& id : list_of(json, "from")) step.from.push_back(InstanceId(id.get<std::int32_t>()));
  for (const Json& shape : list_of(json, "to")) step.to.push_back(shape.get<std::size_t>());
  step.node = id_of<NodeId>(json, "node");
  step.pool = id_of<PoolId>(json, "pool");
  step.serves_on = json.value("serves_on", false);
  return step;
}

}  // namespace

Result<Plan> plan_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return bad_input("plan", "is one JSON object with a list of instances");
  Plan plan;
  plan.reason = "given";
  try {
    for (const Json& target : list_of(json, "instances")) {
      plan.instances.push_back({get<std::size_t>(target, "shape"), get<std::int32_t>(target, "count"),
                                id_of<NodeId>(target, "node"), id_of<PoolId>(target, "pool")});
    }
    for (const Json& w : list_of(json, "weights")) {
      plan.weights.push_back(
          {ClassId(get<std::int32_t>(w, "class")), PoolId(get<std::int32_t>(w, "pool")), get<double>(w, "weight")});
    }
    for (const Json& range : list_of(json, "clocks")) {
      plan.clocks.push_back({PoolId(get<std::int32_t>(range, "pool")), MegaHertz(get<std::int32_t>(range, "least_mhz")),
                             MegaHertz(get<std::int32_t>(range, "most_mhz"))});
    }
    for (const Json& step : list_of(json, "steps")) plan.steps.push_back(step_of(step));
  } catch (const std::exception& wrong) {  // those above, and JSON's own of a value of another kind
    return bad_input("plan", wrong.what());
  }
  return plan;
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

Plan GivenPlan::plan(const policy::ScalingView& view) {
  const std::lock_guard lock(mutex_);
  fresh_ = false;
  if (!any_) {
    Plan plan = as_it_is(view);
    plan.reason = "no plan was given yet: as it is";
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
