#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "config/fleet_check.h"
#include "config/load.h"
#include "config/names_check.h"
#include "config/records.h"
#include "config/repeated.h"

namespace wattle::config {
namespace {

Result<void> override_elements(const Override& override_, List& list, Origins& origins) {
  const std::int64_t index = element_index(override_.key, list.name);
  if (index >= 0 && static_cast<std::size_t>(index) >= list.parts.size()) {
    return bad_input(override_.where(), fmt::format("there is no {} {}; the scenario has {}, counted from 0",
                                                    list.element, index, list.parts.size()));
  }
  const auto named = [&](const OptionSpec* spec) { return spec->key == override_.key; };
  const bool indexed = index >= 0 && override_.key == list.key(static_cast<std::size_t>(index), override_.key);
  if (!indexed && std::ranges::none_of(list.specs, named)) {
    if (index >= 0) {
      return bad_input(override_.where(),
                       fmt::format("write {0}.N.KEY, as in {1}", list.name, list.key(0, list.specs[1]->key)));
    }
    return std::unexpected(unknown_key(override_.key, override_.where(), list.specs));
  }
  if (list.parts.empty()) {
    return bad_input(override_.where(), fmt::format("the scenario has no [[{}]] section", list.name));
  }
  // Without an index the override is meant for every element.
  for (std::size_t i = 0; i < list.parts.size(); ++i) {
    if (index >= 0 && static_cast<std::size_t>(index) != i) continue;
    std::vector<Override> one{{list.key(i, override_.key), override_.text}};
    if (auto ok = apply_overrides(list.specs, one, list.parts[i].entries, origins); !ok) return ok;
  }
  return {};
}

}  // namespace

Result<LoadedScenario> scenario_from_text(std::string_view text, const std::string& file,
                                          const std::vector<Override>& overrides, const Project& project) {
  const Result<Document> parsed = parse_toml(text, file);
  if (!parsed) return std::unexpected(parsed.error());
  const Document& document = *parsed;
  LoadedScenario loaded;
  loaded.origins = Origins(document);
  Part outside;
  std::vector<List> lists;
  for_each_list([&](const char* name, const char* noun, const auto& options, auto) {
    lists.push_back({name, noun, specs_of(options)});
  });
  split(document, outside, lists);
  const List& fleet = lists[0];

  std::vector<Override> main;
  for (const Override& override_ : overrides) {
    const auto list = std::ranges::find_if(lists, [&](const List& l) { return l.has(override_.key); });
    if (list == lists.end()) {
      main.push_back(override_);
    } else if (auto ok = override_elements(override_, *list, loaded.origins); !ok) {
      return std::unexpected(std::move(ok.error()));
    }
  }
  const auto main_specs = specs_of(scenario_options());
  if (auto ok = apply_overrides(main_specs, main, outside.entries, loaded.origins); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  for (const Entry& entry : outside.entries) {
    const auto list = std::ranges::find_if(lists, [&](const List& l) { return l.has(entry.key); });
    if (list != lists.end()) {
      const std::string each = list->name == "fleet"   ? "pool of equal instances"
                               : list->name == "site"  ? "place with its electricity"
                               : list->name == "node"  ? "kind of machine"
                               : list->name == "fault" ? "thing that dies"
                                                       : list->element;
      return bad_input(entry.where,
                       fmt::format("{0} takes one or more [[{0}]] sections, each a {1}", list->name, each));
    }
  }
  if (auto ok = check_keys(main_specs, outside.entries, outside.tables, outside.where); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  Scenario& scenario = loaded.scenario;
  if (auto ok = fill(scenario_options(), outside.entries, scenario); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  if (fleet.parts.empty()) {
    return bad_input(loaded.origins.of("fleet"), "no pool; add a [[fleet]] section with gpu = \"...\"");
  }
  Result<void> read;
  std::size_t l = 0;
  for_each_list([&](const char*, const char*, const auto& options, auto member) {
    const List& list = lists[l++];
    for (std::size_t i = 0; read && i < list.parts.size(); ++i) {
      auto one = element(list, i, options);
      if (!one) {
        read = std::unexpected(std::move(one.error()));
      } else {
        (scenario.*member).push_back(std::move(*one));
      }
    }
  });
  if (!read) return std::unexpected(std::move(read.error()));
  if (auto ok = check_names(loaded); !ok) return std::unexpected(std::move(ok.error()));
  if (auto ok = check_effects(loaded); !ok) return std::unexpected(std::move(ok.error()));
  scenario.file = document.file;
  if (scenario.name.empty()) scenario.name = std::filesystem::path(document.file).stem().string();

  // A path in the file is from its folder or the working directory, one on the command line from the latter.
  const auto folder_of = [&](const std::string& key) {
    return loaded.origins.commanded(key) ? std::filesystem::path() : std::filesystem::path(document.file).parent_path();
  };
  const auto llm_file = project.find(Project::Kind::Llm, scenario.llm, loaded.origins.of("llm"), folder_of("llm"));
  if (!llm_file) return std::unexpected(llm_file.error());
  Result<LlmSpec> llm = load_llm(*llm_file);
  if (!llm) return std::unexpected(std::move(llm.error()));
  loaded.llm = std::move(*llm);
  for (std::size_t i = 0; i < scenario.pools.size(); ++i) {
    const std::string key = fleet.key(i, "gpu");
    const auto gpu_file =
        project.find(Project::Kind::Gpu, scenario.pools[i].gpu, loaded.origins.of(key), folder_of(key));
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
