#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "config/fleet_check.h"
#include "config/load.h"
#include "config/records.h"

namespace wattle::config {
namespace {

std::string pool_key(std::size_t index, std::string_view key) {
  return fmt::format("fleet.{}.{}", index, key.substr(key.rfind('.') + 1));
}

/// Entries and headers of one pool, or (index absent) those outside [[fleet]].
struct Part {
  std::vector<Entry> entries;
  std::vector<TableEntry> tables;
  std::string where;
};

struct Parts {
  Part main;
  std::vector<Part> pools;
};

Parts split(const Document& document) {
  Parts parts;
  parts.main.where = document.file + ":1";
  for (const TableEntry& table : document.tables) {
    const std::int64_t index = pool_index(table.key);
    if (table.key == "fleet") continue;
    if (index < 0) {
      parts.main.tables.push_back(table);
      continue;
    }
    const auto i = static_cast<std::size_t>(index);
    if (parts.pools.size() <= i) parts.pools.resize(i + 1);
    if (table.key == fmt::format("fleet.{}", index)) {
      parts.pools[i].where = table.where;
    } else {
      parts.pools[i].tables.push_back(table);
    }
  }
  for (const Entry& entry : document.entries) {
    const std::int64_t index = pool_index(entry.key);
    if (index < 0 || static_cast<std::size_t>(index) >= parts.pools.size()) {
      parts.main.entries.push_back(entry);
    } else {
      parts.pools[static_cast<std::size_t>(index)].entries.push_back(entry);
    }
  }
  return parts;
}

/// Turns "fleet.0.gpu" into the records' "fleet.gpu".
void strip_index(Part& part, std::size_t index) {
  const std::string prefix = fmt::format("fleet.{}.", index);
  for (Entry& entry : part.entries) entry.key = "fleet." + entry.key.substr(prefix.size());
  for (TableEntry& table : part.tables) table.key = "fleet." + table.key.substr(prefix.size());
}

Result<void> override_pools(const std::vector<Override>& overrides, Parts& parts, Origins& origins) {
  for (const Override& override_ : overrides) {
    const std::int64_t index = pool_index(override_.key);
    if (index >= 0 && static_cast<std::size_t>(index) >= parts.pools.size()) {
      return bad_input(override_.where(), fmt::format("there is no pool {}; the scenario has {}, counted from 0", index,
                                                      parts.pools.size()));
    }
    const auto named = [&](const OptionSpec* spec) { return spec->key == override_.key; };
    const bool indexed = index >= 0 && override_.key == pool_key(static_cast<std::size_t>(index), override_.key);
    if (!indexed && std::ranges::none_of(specs_of(pool_options()), named)) {
      if (index >= 0) return bad_input(override_.where(), "write fleet.N.KEY, as in fleet.0.count");
      return std::unexpected(unknown_key(override_.key, override_.where(), specs_of(pool_options())));
    }
    // Without an index the override is meant for every pool.
    for (std::size_t i = 0; i < parts.pools.size(); ++i) {
      if (index >= 0 && static_cast<std::size_t>(index) != i) continue;
      std::vector<Override> one{{pool_key(i, override_.key), override_.text}};
      if (auto ok = apply_overrides(specs_of(pool_options()), one, parts.pools[i].entries, origins); !ok) return ok;
    }
  }
  return {};
}

bool is_pool_key(const Override& override_) { return override_.key == "fleet" || override_.key.starts_with("fleet."); }

}  // namespace

Result<LoadedScenario> scenario_from_text(std::string_view text, const std::string& file,
                                          const std::vector<Override>& overrides, const Project& project) {
  const Result<Document> parsed = parse_toml(text, file);
  if (!parsed) return std::unexpected(parsed.error());
  const Document& document = *parsed;
  LoadedScenario loaded;
  loaded.origins = Origins(document);
  Parts parts = split(document);

  std::vector<Override> main;
  std::vector<Override> pools;
  std::ranges::partition_copy(overrides, std::back_inserter(pools), std::back_inserter(main), is_pool_key);
  const auto main_specs = specs_of(scenario_options());
  if (auto ok = apply_overrides(main_specs, main, parts.main.entries, loaded.origins); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  if (auto ok = override_pools(pools, parts, loaded.origins); !ok) return std::unexpected(std::move(ok.error()));
  for (const Entry& entry : parts.main.entries) {
    if (entry.key == "fleet" || entry.key.starts_with("fleet.")) {
      return bad_input(entry.where, "fleet takes one or more [[fleet]] sections, each a pool of equal instances");
    }
  }
  if (auto ok = check_keys(main_specs, parts.main.entries, parts.main.tables, parts.main.where); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  Scenario& scenario = loaded.scenario;
  if (auto ok = fill(scenario_options(), parts.main.entries, scenario); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  if (parts.pools.empty()) {
    return bad_input(loaded.origins.of("fleet"), "no pool; add a [[fleet]] section with gpu = \"...\"");
  }
  for (std::size_t i = 0; i < parts.pools.size(); ++i) {
    Part& part = parts.pools[i];
    strip_index(part, i);
    if (auto ok = check_keys(specs_of(pool_options()), part.entries, part.tables, part.where); !ok) {
      return std::unexpected(std::move(ok.error()));
    }
    PoolOptions pool;
    if (auto ok = fill(pool_options(), part.entries, pool); !ok) return std::unexpected(std::move(ok.error()));
    scenario.pools.push_back(std::move(pool));
  }
  scenario.file = document.file;
  if (scenario.name.empty()) scenario.name = std::filesystem::path(document.file).stem().string();

  const auto llm_file = project.find(Project::Kind::Llm, scenario.llm, loaded.origins.of("llm"));
  if (!llm_file) return std::unexpected(llm_file.error());
  Result<LlmSpec> llm = load_llm(*llm_file);
  if (!llm) return std::unexpected(std::move(llm.error()));
  loaded.llm = std::move(*llm);
  for (std::size_t i = 0; i < scenario.pools.size(); ++i) {
    const std::string where = loaded.origins.of(pool_key(i, "gpu"));
    const auto gpu_file = project.find(Project::Kind::Gpu, scenario.pools[i].gpu, where);
    if (!gpu_file) return std::unexpected(gpu_file.error());
    Result<GpuSpec> gpu = load_gpu(*gpu_file);
    if (!gpu) return std::unexpected(std::move(gpu.error()));
    loaded.gpus.push_back(std::move(*gpu));
  }
  if (auto ok = check_fleet(loaded); !ok) return std::unexpected(std::move(ok.error()));
  return loaded;
}

Result<LoadedScenario> load_scenario(std::string_view name_or_path, const std::vector<Override>& overrides,
                                     const Project& project) {
  const Result<std::string> file = project.find(Project::Kind::Scenario, name_or_path, "scenario");
  if (!file) return std::unexpected(file.error());
  const Result<std::string> text = read_text(*file);
  if (!text) return std::unexpected(text.error());
  return scenario_from_text(*text, *file, overrides, project);
}

}  // namespace wattle::config
