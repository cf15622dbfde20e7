#include "config/engine_arguments.h"

#include <algorithm>

#include "config/fill.h"
#include "config/records.h"

namespace wattle::config {

std::string engine_flag(const OptionSpec& option) {
  std::string flag = "--" + option.key;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string flag_text(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? *text : to_text(value);
}

const char* step_reports_of(TelemetrySource source) {
  switch (source) {
    case TelemetrySource::StepStarts:
      return "start";
    case TelemetrySource::StepEnds:
      return "ended";
    case TelemetrySource::Streams:
    case TelemetrySource::Gauges:
      break;
  }
  return "none";
}

std::vector<std::string> engine_arguments(const engine::EngineOptions& options) {
  std::vector<std::string> all;
  for (const auto& option : engine_options()) {
    const Value value = option.get(options);
    const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
    const bool none_by_default = std::holds_alternative<std::monostate>(option.get(engine::EngineOptions{}));
    if (std::holds_alternative<std::monostate>(value) && none_by_default) continue;
    if (list != nullptr && list->empty()) continue;
    all.insert(all.end(), {engine_flag(option), flag_text(value)});
  }
  return all;
}

Result<void> set_from_flag(const Option<engine::EngineOptions>& option, const std::string& text,
                           engine::EngineOptions& to) {
  auto entry = entry_from_text(option, {option.key, text});
  if (!entry) return bad_input(engine_flag(option), entry.error().what);
  entry->where = engine_flag(option);
  const auto value = checked(option, *entry);
  if (!value) return std::unexpected(value.error());
  option.set(to, *value);
  return {};
}

}  // namespace wattle::config
