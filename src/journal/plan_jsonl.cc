// A plan as a line of decisions.jsonl.
#include "journal/decisions_jsonl.h"
#include "journal/json_keys.h"
#include "journal/names.h"

namespace wattle::journal {
namespace {

template <typename Id>
void put(Json& json, const char* key, const std::optional<Id>& id) {
  if (id) json[key] = id->value();
}

Json json_of(const Mandate& mandate) {
  Json json = Json::object();
  put(json, "pool", mandate.pool);
  if (mandate.gpus > 0) json["gpus"] = mandate.gpus;
  if (mandate.load_per_s > 0.0) json["load_per_s"] = mandate.load_per_s;
  if (mandate.least) json["least_mhz"] = mandate.least->value();
  if (mandate.most) json["most_mhz"] = mandate.most->value();
  if (mandate.until != Instant::never()) json["until_ns"] = mandate.until.ns();
  return json;
}

template <typename Item, typename ToJson>
void put_all(Json& json, const char* key, const std::vector<Item>& items, ToJson to_json) {
  if (items.empty()) return;
  Json list = Json::array();
  for (const Item& item : items) list.push_back(to_json(item));
  json[key] = std::move(list);
}

Json json_of(const PlanTarget& target) {
  Json json{{"shape", target.shape}, {"count", target.count}};
  put(json, "node", target.node);
  put(json, "pool", target.pool);
  if (target.weight > 0.0) json["weight"] = target.weight;
  return json;
}

Json json_of(const PlanStep& step) {
  Json json{{"kind", name_of(step.kind)}};
  put_all(json, "from", step.from, [](InstanceId id) { return id.value(); });
  put_all(json, "to", step.to, [](std::size_t shape) { return shape; });
  put(json, "node", step.node);
  put(json, "pool", step.pool);
  if (step.kind == StepKind::Reshard) json["serves_on"] = step.serves_on;
  json["cost_j"] = step.cost.energy.value();
  json["cost_s"] = step.cost.time.seconds();
  json["lost_load_per_s"] = step.cost.lost_load_per_s;
  return json;
}

void put_mandates(Json& json, const std::optional<Mandate>& given, const std::vector<Mandate>& passed) {
  if (given) json["given"] = json_of(*given);
  put_all(json, "passed", passed, [](const Mandate& mandate) { return json_of(mandate); });
}

Json json_of(const PlanLevel& level) {
  Json json{{"name", level.name}, {"made_ns", level.made.ns()}};
  put(json, "pool", level.pool);
  if (level.gpus > 0) json["gpus"] = level.gpus;
  put_mandates(json, level.given, level.passed);
  json["reason"] = level.reason;
  if (!level.detail.empty()) json["detail"] = level.detail;
  return json;
}

}  // namespace

nlohmann::ordered_json plan_json(const Plan& plan) {
  Json json = Json::object();
  put_all(json, "instances", plan.instances, [](const PlanTarget& target) { return json_of(target); });
  put_all(json, "weights", plan.weights, [](const PoolWeight& w) {
    return Json{{"class", w.request_class.value()}, {"pool", w.pool.value()}, {"weight", w.weight}};
  });
  put_all(json, "clocks", plan.clocks, [](const ClockRange& range) {
    return Json{{"pool", range.pool.value()}, {"least_mhz", range.least.value()}, {"most_mhz", range.most.value()}};
  });
  put_all(json, "steps", plan.steps, [](const PlanStep& step) { return json_of(step); });
  put_mandates(json, plan.given, plan.passed);
  put_all(json, "levels", plan.levels, [](const PlanLevel& level) { return json_of(level); });
  if (!plan.problem.empty()) json["problem"] = plan.problem;
  return json;
}

void append_plan_line(std::string& out, const PlanRecord& record) {
  const char* reason = record.flaw == nullptr ? record.plan.reason : record.flaw;
  append_decision_line(
      out, {record.at, DecisionKind::Plan, record.mode, RequestId{-1}, InstanceId{-1}, record.gpus, reason});
  out.resize(out.size() - 2);  // the brace and the end of the line
  Json plan = plan_json(record.plan);
  plan["sound"] = record.flaw == nullptr;
  out += ",\"plan\":" + plan.dump() + "}\n";
}

}  // namespace wattle::journal
