#include "planner/engine_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "config/engine_arguments.h"
#include "journal/names.h"

namespace wattle::planner {

namespace {

constexpr std::int32_t kMostNode = 4095;  ///< as the gateway takes them
constexpr const char* kLoad = "--load-s";

/// Values by flag; what belongs to no flag has none.
std::map<std::string, std::string> by_flag(std::span<const std::string> words) {
  std::map<std::string, std::string> all;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool valued = words[i].starts_with("--") && i + 1 < words.size() && !words[i + 1].starts_with("--");
    all[words[i]] = valued ? words[i + 1] : "";
    if (valued) ++i;
  }
  all.erase(kLoad);
  return all;
}

}  // namespace

Result<EngineSlot> parse_slot(const std::string& text, const config::Scenario& scenario) {
  const auto wrong =
      bad_input("--slot " + text, "is POOL=GPU[,GPU...]@ENDPOINT[,node=N], as in 0=0,1@tcp://127.0.0.1:5557,node=1");
  EngineSlot slot;
  const std::size_t equals = text.find('=');
  const std::size_t at = text.find('@');
  if (equals == std::string::npos || at == std::string::npos || at < equals) return wrong;
  const auto [end, code] = std::from_chars(text.data(), text.data() + equals, slot.pool);
  if (code != std::errc() || end != text.data() + equals) return wrong;
  if (slot.pool >= scenario.pools.size()) return bad_input("--slot " + text, "the scenario has no such [[fleet]]");
  for (std::size_t begin = equals + 1; begin <= at;) {
    const std::size_t comma = std::min(text.find(',', begin), at);
    if (comma == begin) return wrong;
    slot.gpus.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  const auto wanted = static_cast<std::size_t>(scenario.pools[slot.pool].tensor_parallel);
  if (slot.gpus.size() != wanted) {
    return bad_input("--slot " + text, fmt::format("names {} GPUs; that [[fleet]] takes {}", slot.gpus.size(), wanted));
  }
  slot.fpm = text.substr(at + 1);
  if (const std::size_t comma = slot.fpm.find(','); comma != std::string::npos) {
    const std::string more = slot.fpm.substr(comma + 1);
    slot.fpm.resize(comma);
    constexpr std::string_view kNode = "node=";
    std::int32_t node = 0;
    const char* const last = more.data() + more.size();
    if (!more.starts_with(kNode)) return wrong;
    const auto [stop, bad] = std::from_chars(more.data() + kNode.size(), last, node);
    if (bad != std::errc() || stop != last || node < 0 || node > kMostNode) return wrong;
    slot.node = NodeId(node);
  }
  if (slot.fpm.empty()) return wrong;
  return slot;
}

std::vector<std::string> engine_command(const config::LoadedScenario& loaded, const EngineSlot& slot,
                                        const std::string& name, Span load) {
  const auto& pool = loaded.scenario.pools[slot.pool];
  std::vector<std::string> words{"mock-engine",
                                 "--json",
                                 "--gpu",
                                 pool.gpu,
                                 "--llm",
                                 loaded.scenario.llm,
                                 "--tp",
                                 std::to_string(pool.tensor_parallel),
                                 "--gpus",
                                 fmt::format("{}", fmt::join(slot.gpus, ",")),
                                 "--fpm",
                                 slot.fpm,
                                 "--id",
                                 name,
                                 "--role",
                                 std::string(journal::name_of(pool.role)),
                                 "--step-reports",
                                 config::step_reports_of(loaded.scenario.measurement.telemetry),
                                 kLoad,
                                 fmt::format("{}", load.seconds())};
  const auto options = config::engine_arguments(config::engine_of(loaded.scenario, pool));
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

std::string differences(std::span<const std::string> runs, std::span<const std::string> wanted) {
  const auto had = by_flag(runs);
  const auto has = by_flag(wanted);
  std::string out;
  const auto differs = [&](const std::string& what) { out += (out.empty() ? "" : ", ") + what; };
  for (const auto& [flag, value] : has) {
    const auto old = had.find(flag);
    if (old == had.end()) {
      differs(fmt::format("{} {} is new", flag, value));
    } else if (old->second != value) {
      differs(fmt::format("{} {} instead of {}", flag, old->second, value));
    }
  }
  for (const auto& [flag, value] : had) {
    if (!has.contains(flag)) differs(fmt::format("{} {} is no more", flag, value));
  }
  return out;
}

}  // namespace wattle::planner
