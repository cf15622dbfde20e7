#include "telemetry/gauges.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text_line.h"

namespace wattle::telemetry {

namespace {

enum class Gauge : std::uint8_t { Running, Waiting, KvTokens, KvShare };

struct Name {
  std::string_view text;
  Gauge gauge;
};

constexpr Name kPageNames[] = {
    {"vllm:num_requests_running", Gauge::Running},    {"vllm:num_requests_waiting", Gauge::Waiting},
    {"vllm:kv_cache_usage_perc", Gauge::KvShare},     {"vllm:gpu_cache_usage_perc", Gauge::KvShare},
    {"sglang:num_running_reqs", Gauge::Running},      {"sglang:num_queue_reqs", Gauge::Waiting},
    {"sglang:num_used_tokens", Gauge::KvTokens},      {"sglang:token_usage", Gauge::KvShare},
    {"sglang_num_running_reqs", Gauge::Running},      {"sglang_num_queue_reqs", Gauge::Waiting},
    {"sglang_num_used_tokens", Gauge::KvTokens},      {"sglang_token_usage", Gauge::KvShare},
    {"llamacpp:requests_processing", Gauge::Running}, {"llamacpp:requests_deferred", Gauge::Waiting}};

constexpr Name kOrcaNames[] = {{"kv_cache_usage_perc", Gauge::KvShare},  {"kv_cache_utilization", Gauge::KvShare},
                               {"num_requests_waiting", Gauge::Waiting}, {"waiting_queue_size", Gauge::Waiting},
                               {"num_requests_running", Gauge::Running}, {"running_queue_size", Gauge::Running}};

constexpr Name kLoadNames[] = {{"num_running_reqs", Gauge::Running},
                               {"num_waiting_reqs", Gauge::Waiting},
                               {"num_used_tokens", Gauge::KvTokens},
                               {"num_tokens", Gauge::KvTokens},
                               {"token_usage", Gauge::KvShare}};

template <std::size_t N>
const Name* find(const Name (&names)[N], std::string_view text) {
  const auto found = std::ranges::find(names, text, &Name::text);
  return found == std::end(names) ? nullptr : found;
}

/// More than any engine holds; sums of several fit 32 bits.
constexpr double kMostCount = 1 << 20;

/// Ignores values that are no count, or more than any engine holds.
void take(LoadGauges& into, Gauge gauge, double value) {
  if (!std::isfinite(value) || value < 0.0 || value > 1e12) return;
  const auto count = [value](std::optional<std::int32_t>& to) {
    to = static_cast<std::int32_t>(std::min(kMostCount, to.value_or(0) + value));
  };
  switch (gauge) {
    case Gauge::Running:
      return count(into.running);
    case Gauge::Waiting:
      return count(into.waiting);
    case Gauge::KvTokens:
      into.kv_tokens = into.kv_tokens.value_or(0) + static_cast<std::int64_t>(value);
      return;
    case Gauge::KvShare:
      if (value <= 1.0) into.kv_share = std::max(into.kv_share.value_or(0.0), value);
      return;
  }
}

std::optional<double> number(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  double value = 0.0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::optional<LoadGauges> unless_empty(const LoadGauges& gauges) {
  return gauges.empty() ? std::nullopt : std::optional(gauges);
}

void take_object(LoadGauges& into, const nlohmann::json& object) {
  if (!object.is_object()) return;
  for (const Name& name : kLoadNames) {
    const auto found = object.find(name.text);
    if (found != object.end() && found->is_number()) take(into, name.gauge, found->get<double>());
  }
  // The older form has all requests, and those that wait among them.
  const auto all = object.find("num_reqs");
  if (all == object.end() || !all->is_number() || object.contains("num_running_reqs")) return;
  const double waiting = object.value("num_waiting_reqs", nlohmann::json(0)).is_number()
                             ? object.value("num_waiting_reqs", nlohmann::json(0)).get<double>()
                             : 0.0;
  take(into, Gauge::Running, std::max(0.0, all->get<double>() - waiting));
}

}  // namespace

std::optional<LoadGauges> read_metrics_page(std::string_view page) {
  LoadGauges gauges;
  while (!page.empty()) {
    const std::string_view line = take_line(page);
    if (line.empty() || line.front() == '#') continue;
    const Name* name = find(kPageNames, line.substr(0, line.find_first_of("{ ")));
    if (name == nullptr) continue;
    const std::size_t labels = line.rfind('}');
    const std::string_view value = line.substr(labels == std::string_view::npos ? name->text.size() : labels + 1);
    if (const auto read = number(value)) take(gauges, name->gauge, *read);
  }
  return unless_empty(gauges);
}

std::optional<LoadGauges> read_loads(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const nlohmann::json* list = &json;
  if (json.is_object() && json.contains("loads")) list = &json["loads"];
  LoadGauges gauges;
  if (list->is_array()) {
    for (const auto& one : *list) take_object(gauges, one);
  } else {
    take_object(gauges, *list);
  }
  return unless_empty(gauges);
}

std::vector<std::string> read_models(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  std::vector<std::string> names;
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array()) return names;
  for (const auto& one : json["data"]) {
    const auto id = one.is_object() ? one.find("id") : one.end();
    if (id != one.end() && id->is_string()) names.push_back(id->get<std::string>());
  }
  return names;
}

std::optional<LoadGauges> read_orca(std::string_view header) {
  LoadGauges gauges;
  if (header.starts_with("JSON ")) {
    const auto json = nlohmann::json::parse(header.substr(5), nullptr, false);
    if (!json.is_object() || !json.contains("named_metrics") || !json["named_metrics"].is_object()) return std::nullopt;
    for (const auto& [key, value] : json["named_metrics"].items()) {
      const Name* name = find(kOrcaNames, key);
      if (name != nullptr && value.is_number()) take(gauges, name->gauge, value.get<double>());
    }
    return unless_empty(gauges);
  }
  if (!header.starts_with("TEXT ")) return std::nullopt;
  header.remove_prefix(5);
  while (!header.empty()) {
    std::string_view part = header.substr(0, header.find(','));
    header.remove_prefix(std::min(part.size() + 1, header.size()));
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    constexpr std::string_view kPrefix = "named_metrics.";
    if (part.starts_with(kPrefix)) part.remove_prefix(kPrefix.size());
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) continue;
    const Name* name = find(kOrcaNames, part.substr(0, equals));
    if (name == nullptr) continue;
    if (const auto read = number(part.substr(equals + 1))) take(gauges, name->gauge, *read);
  }
  return unless_empty(gauges);
}

}  // namespace wattle::telemetry
