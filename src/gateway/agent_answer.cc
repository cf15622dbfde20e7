#include "gateway/agent_answer.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "journal/names.h"

namespace wattle::gateway {

namespace {

constexpr std::int64_t kTimeMax = std::int64_t{1} << 61;                        // two of them may be added
constexpr std::int64_t kEnergyMaxUj = std::int64_t{1'000'000'000'000'000'000};  // thirty years at a kilowatt
constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

/// Nothing: absent, no whole number, or not between `low` and `high`.
std::optional<std::int64_t> whole(const nlohmann::json& object, const char* key, std::int64_t low, std::int64_t high) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > static_cast<std::uint64_t>(kTimeMax)) {
    return std::nullopt;
  }
  const auto value = found->get<std::int64_t>();
  if (value < low || value > high) return std::nullopt;
  return value;
}

std::string text(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

MegaHertz clock(const nlohmann::json& object, const char* key) {
  return MegaHertz(static_cast<std::int32_t>(whole(object, key, 0, kInt32Max).value_or(0)));
}

std::optional<AgentAnswer::Measured> measured(const nlohmann::json& s) {
  const auto duration = whole(s, "duration_ns", 1, kTimeMax);
  const auto decodes = whole(s, "decode_requests", 0, kInt32Max);
  const auto kv = whole(s, "decode_kv_tokens", 0, kTimeMax);
  const auto prompts = whole(s, "prefill_requests", 0, kInt32Max);
  const auto tokens = whole(s, "prefill_tokens", 0, kTimeMax);
  const auto context = whole(s, "prefill_context_tokens", 0, kTimeMax);
  if (!duration || !decodes || !kv || !prompts || !tokens || !context) return std::nullopt;
  StepShape shape;
  shape.decode_requests = static_cast<std::int32_t>(*decodes);
  shape.decode_kv_tokens = *kv;
  shape.prefill_requests = static_cast<std::int32_t>(*prompts);
  shape.prefill_tokens = *tokens;
  shape.prefill_context_tokens = *context;
  return AgentAnswer::Measured{text(s, "engine"), {clock(s, "clock_mhz"), shape, Span(*duration)}};
}

}  // namespace

std::optional<AgentAnswer> read_agent_answer(std::string_view answer) {
  const auto body = nlohmann::json::parse(answer, nullptr, false);
  const auto engines = body.is_object() ? body.find("engines") : body.end();
  if (engines == body.end() || !engines->is_array()) return std::nullopt;
  AgentAnswer out;
  out.started_unix_us = whole(body, "started_unix_us", 0, kTimeMax).value_or(0);
  for (const auto& engine : *engines) {
    if (!engine.is_object()) continue;
    out.engines.push_back({text(engine, "engine"), whole(engine, "energy_uj", 0, kEnergyMaxUj),
                           Milliwatts(whole(engine, "power_mw", 0, kInt32Max).value_or(0)), clock(engine, "clock_mhz"),
                           clock(engine, "commanded_mhz"), engine.value("emulated", nlohmann::json()) == true});
  }
  if (const auto now = whole(body, "now_ns", -kTimeMax, kTimeMax)) out.now = Instant(*now);
  out.next_decision = whole(body, "next", 0, kTimeMax).value_or(0);
  out.next_step = whole(body, "next_step", 0, kTimeMax).value_or(0);
  if (const auto facts = body.find("facts"); facts != body.end() && facts->is_object()) {
    for (const auto& [name, said] : facts->items()) {
      if (said.is_string()) out.facts.emplace(name, said.get<std::string>());
    }
  }
  if (const auto steps = body.find("steps"); steps != body.end() && steps->is_array()) {
    for (const auto& s : *steps) {
      if (auto read = s.is_object() ? measured(s) : std::nullopt) out.steps.push_back(std::move(*read));
    }
  }
  const auto decisions = body.find("decisions");
  if (!out.now || decisions == body.end() || !decisions->is_array()) return out;
  for (const auto& d : *decisions) {
    const auto at = d.is_object() ? whole(d, "at_ns", -kTimeMax, kTimeMax) : std::nullopt;
    if (!at) continue;
    out.decisions.push_back({Instant(*at), text(d, "engine"),
                             journal::mode_from(text(d, "mode")).value_or(Mode::Enforce), clock(d, "clock_mhz"),
                             text(d, "reason")});
  }
  return out;
}

}  // namespace wattle::gateway
