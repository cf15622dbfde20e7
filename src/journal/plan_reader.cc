#include "journal/plan_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "journal/names.h"
#include "model/instance.h"

namespace wattle::journal {

namespace {

using Read = nlohmann::json;

constexpr std::int64_t kMostId = 1'000'000'000;
constexpr std::int64_t kMostInstances = 100'000;  ///< of one target, so that their number of GPUs does not overflow
constexpr std::int64_t kMostMhz = 100'000;
constexpr std::int64_t kMostNs = std::int64_t{1} << 60;

/// The value of a key, or an exception with the key and the expected value.
const Read& at(const Read& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (found == json.end()) throw std::invalid_argument(std::string(key) + " is missing");
  return *found;
}

template <typename T>
T get(const Read& json, const char* key) {
  const Read& value = at(json, key);
  if (!value.is_number()) throw std::invalid_argument(std::string(key) + " must be a number");
  return value.get<T>();
}

bool is_from_to(const Read& value, std::int64_t least, std::int64_t most) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(kMostNs)) return false;
  return value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most;
}

std::int64_t whole(const Read& json, const char* key, std::int64_t least, std::int64_t most) {
  const Read& value = at(json, key);
  if (is_from_to(value, least, most)) return value.get<std::int64_t>();
  throw std::invalid_argument(fmt::format("{} must be a whole number from {} to {}", key, least, most));
}

/// An id in a list of them.
template <typename T>
T whole_of(const Read& value, const char* list) {
  if (is_from_to(value, 0, kMostId)) return value.get<T>();
  throw std::invalid_argument(fmt::format("{} must be a list of whole numbers from 0", list));
}

std::int32_t number(const Read& json, const char* key, std::int64_t least, std::int64_t most) {
  return static_cast<std::int32_t>(whole(json, key, least, most));
}

template <typename Id>
std::optional<Id> id_of(const Read& json, const char* key) {
  if (!json.contains(key)) return std::nullopt;
  return Id(number(json, key, 0, kMostId));
}

const Read& list_of(const Read& json, const char* key) {
  static const Read kNone = Read::array();
  const auto found = json.find(key);
  if (found == json.end()) return kNone;
  if (!found->is_array()) throw std::invalid_argument(std::string(key) + " must be a list");
  return *found;
}

/// Errors of an item include its index in the list.
void each(const Read& json, const char* key, const std::function<void(const Read& item)>& take) {
  std::size_t at = 0;
  for (const Read& item : list_of(json, key)) {
    try {
      take(item);
    } catch (const std::invalid_argument& wrong) {
      throw std::invalid_argument(fmt::format("{}[{}].{}", key, at, wrong.what()));
    }
    ++at;
  }
}

PlanStep step_of(const Read& json) {
  PlanStep step;
  const std::string kind = json.value("kind", "");
  const auto known = std::array{StepKind::Start, StepKind::Drain, StepKind::Reshard, StepKind::Move, StepKind::Reroute};
  const auto found = std::ranges::find(known, kind, [](StepKind k) { return name_of(k); });
  if (found == known.end()) {
    throw std::invalid_argument("kind is '" + kind + "'; use start, drain, reshard, move or reroute");
  }
  step.kind = *found;
  for (const Read& id : list_of(json, "from")) step.from.push_back(InstanceId(whole_of<std::int32_t>(id, "from")));
  for (const Read& shape : list_of(json, "to")) step.to.push_back(whole_of<std::size_t>(shape, "to"));
  step.node = id_of<NodeId>(json, "node");
  step.pool = id_of<PoolId>(json, "pool");
  step.serves_on = json.value("serves_on", false);
  return step;
}

Mandate mandate_of(const Read& json, Span later) {
  Mandate mandate;
  mandate.pool = id_of<PoolId>(json, "pool");
  if (json.contains("gpus")) mandate.gpus = static_cast<std::int32_t>(whole(json, "gpus", 0, kMostId));
  if (json.contains("load_per_s")) mandate.load_per_s = get<double>(json, "load_per_s");
  if (!(mandate.load_per_s >= 0.0)) throw std::invalid_argument("load_per_s must be a number from 0");
  for (auto [key, clock] : {std::pair("least_mhz", &mandate.least), std::pair("most_mhz", &mandate.most)}) {
    if (json.contains(key)) *clock = MegaHertz(static_cast<std::int32_t>(whole(json, key, 1, kMostId)));
  }
  if (json.contains("until_ns")) mandate.until = Instant(whole(json, "until_ns", -kMostNs, kMostNs)) + later;
  return mandate;
}

PlanLevel level_of(const Read& json, Span later) {
  PlanLevel level;
  level.name = kept_text(at(json, "name").get<std::string>());
  level.pool = id_of<PoolId>(json, "pool");
  level.made = Instant(whole(json, "made_ns", -kMostNs, kMostNs)) + later;
  if (json.contains("gpus")) level.gpus = whole(json, "gpus", 0, kMostId);
  if (json.contains("given")) level.given = mandate_of(json["given"], later);
  for (const Read& below : list_of(json, "passed")) level.passed.push_back(mandate_of(below, later));
  level.reason = kept_text(at(json, "reason").get<std::string>());
  if (json.contains("detail")) level.detail = json["detail"].get<std::string>();
  return level;
}

Plan plan_of(const Read& json, Span later) {
  Plan plan;
  plan.reason = json.contains("reason") ? kept_text(json["reason"].get<std::string>()) : "given";
  each(json, "instances", [&](const Read& target) {
    plan.instances.push_back({static_cast<std::size_t>(whole(target, "shape", 0, kMostId)),
                              number(target, "count", 0, kMostInstances), id_of<NodeId>(target, "node"),
                              id_of<PoolId>(target, "pool")});
    if (target.contains("weight")) plan.instances.back().weight = get<double>(target, "weight");
    const double weight = plan.instances.back().weight;
    if (!(weight >= 0.0 && weight <= kMostWeight)) {
      throw std::invalid_argument("weight must be a number from 0 to 1000000");
    }
  });
  each(json, "weights", [&](const Read& w) {
    const auto weight = get<double>(w, "weight");
    if (!(weight >= 0.0 && weight <= 1.0)) throw std::invalid_argument("weight must be a share from 0 to 1");
    plan.weights.push_back({ClassId(number(w, "class", 0, kMostId)), PoolId(number(w, "pool", 0, kMostId)), weight});
  });
  each(json, "clocks", [&](const Read& range) {
    plan.clocks.push_back({PoolId(number(range, "pool", 0, kMostId)),
                           MegaHertz(number(range, "least_mhz", 1, kMostMhz)),
                           MegaHertz(number(range, "most_mhz", 1, kMostMhz))});
  });
  each(json, "steps", [&](const Read& step) { plan.steps.push_back(step_of(step)); });
  if (json.contains("given")) plan.given = mandate_of(json["given"], later);
  for (const Read& below : list_of(json, "passed")) plan.passed.push_back(mandate_of(below, later));
  for (const Read& level : list_of(json, "levels")) plan.levels.push_back(level_of(level, later));
  if (json.contains("problem")) plan.problem = json["problem"].get<std::string>();
  return plan;
}

void put_later(Mandate& mandate, Span later) {
  if (mandate.until != Instant::never()) mandate.until += later;
}

}  // namespace

Result<Plan> plan_from_json(std::string_view text, Span later) {
  const Read json = Read::parse(text, nullptr, false);
  if (!json.is_object()) return bad_input("plan", "is one JSON object with a list of instances");
  try {
    return plan_of(json, later);
  } catch (const std::exception& wrong) {  // those above, and JSON's own of a value of another kind
    return bad_input("plan", wrong.what());
  }
}

void put_later(Plan& plan, Span later) {
  if (plan.given) put_later(*plan.given, later);
  for (Mandate& below : plan.passed) put_later(below, later);
  for (PlanLevel& level : plan.levels) {
    level.made += later;
    if (level.given) put_later(*level.given, later);
    for (Mandate& below : level.passed) put_later(below, later);
  }
}

const char* kept_text(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  if (known.size() >= 1024 && !known.contains(text)) return "(one of too many reasons)";
  return known.insert(text).first->c_str();
}

}  // namespace wattle::journal
