#include "gateway/planner_records.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "journal/names.h"
#include "journal/plan_reader.h"

namespace wattle::gateway {

namespace {

using nlohmann::json;

constexpr double kAgeMaxMs = 86'400'000.0;  // a day

std::string text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Ids are strings here, as in every answer about workers.
std::optional<std::int32_t> worker_of(const json& object) {
  const std::string id = text(object, "worker");
  std::int32_t value = -1;
  const auto [end, code] = std::from_chars(id.data(), id.data() + id.size(), value);
  if (code != std::errc() || end != id.data() + id.size() || value < 0) return std::nullopt;
  return value;
}

/// The first key that is wrong, or null.
const char* read_plan_of(const json& object, Instant now, PlannerRecord& record) {
  const auto sent = object.find("now_ns");
  constexpr std::int64_t kMostNs = std::int64_t{1} << 60;
  if (sent == object.end() || !sent->is_number_integer() || sent->get<std::int64_t>() > kMostNs ||
      sent->get<std::int64_t>() < -kMostNs) {
    return "now_ns";
  }
  const auto plan = object.find("plan");
  if (plan == object.end() || !plan->is_object()) return "plan";
  auto read = journal::plan_from_json(plan->dump(), now - Instant(sent->get<std::int64_t>()));
  if (!read) return "plan";
  record.plan = std::move(*read);
  record.plan->reason = record.decision.reason;
  const auto sound = plan->find("sound");
  if (sound != plan->end() && sound->is_boolean() && !sound->get<bool>()) record.flaw = record.decision.reason;
  return nullptr;
}

/// The first key that is wrong, or null.
const char* read(const json& object, Instant now, PlannerRecord& to) {
  journal::DecisionRecord& record = to.decision;
  const auto age = object.find("age_ms");
  if (age == object.end() || !age->is_number() || !(age->get<double>() >= 0.0 && age->get<double>() <= kAgeMaxMs)) {
    return "age_ms";
  }
  record.at = now - Span::from_seconds(age->get<double>() * 1e-3);
  const auto mode = journal::mode_from(text(object, "mode"));
  if (!mode) return "mode";
  record.mode = *mode;
  record.reason = journal::kept_text(text(object, "reason"));
  const std::string kind = text(object, "kind");
  if (kind == "scaling" || kind == "plan") {
    record.kind = kind == "plan" ? journal::DecisionKind::Plan : journal::DecisionKind::Scaling;
    const auto gpus = object.find("gpus");
    if (gpus == object.end() || !gpus->is_number_unsigned() ||
        gpus->get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max()) {
      return "gpus";
    }
    record.value = gpus->get<std::int64_t>();
    return kind == "plan" ? read_plan_of(object, now, to) : nullptr;
  }
  if (kind != "phase") return "kind";
  record.kind = journal::DecisionKind::Phase;
  const auto phase = journal::phase_from(text(object, "phase"));
  if (!phase) return "phase";
  record.value = static_cast<std::int64_t>(*phase);
  const auto worker = worker_of(object);
  if (!worker) return "worker";
  record.instance = InstanceId(*worker);
  return nullptr;
}

}  // namespace

std::expected<std::vector<PlannerRecord>, net::ApiError> read_planner_records(std::string_view body, Instant now) {
  const auto wrong = [](std::string param, const char* message) {
    return std::unexpected(
        net::ApiError{400, fmt::format("{} {}", param, message), "invalid_request_error", param, ""});
  };
  const auto sent = json::parse(body, nullptr, false);
  const auto list = sent.is_object() ? sent.find("records") : sent.end();
  if (list == sent.end() || !list->is_array()) return wrong("records", "must be an array, in an object");
  std::vector<PlannerRecord> records;
  for (const auto& item : *list) {
    const auto where = fmt::format("records[{}]", records.size());
    if (!item.is_object()) return wrong(where, "must be an object");
    PlannerRecord record;
    if (const char* key = read(item, now, record)) {
      return wrong(
          fmt::format("{}.{}", where, key),
          "is missing or out of range: kind is scaling, plan or phase; age_ms up to a day; mode enforce, shadow "
          "or off; gpus a count; plan a whole one; worker the id of one; phase spawning, warming, serving, "
          "draining or gone");
    }
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace wattle::gateway
