#include "config/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/deployment.h"
#include "config/model_config.h"
#include "config/names_check.h"
#include "config/profile.h"
#include "config/record_text.h"
#include "config/records.h"

namespace wattle::config {
namespace {

template <typename S>
int matching_keys(const std::vector<Option<S>>& options, const Document& document) {
  int count = 0;
  for (const Option<S>& option : options) {
    for (const Entry& entry : document.entries) count += entry.key == option.key ? 1 : 0;
    for (const TableEntry& table : document.tables) count += option.key.starts_with(table.key + ".") ? 1 : 0;
  }
  return count;
}

int matching_keys(std::span<const OptionSpec> specs, const Document& document) {
  int count = 0;
  for (const OptionSpec& spec : specs) {
    for (const Entry& entry : document.entries) count += entry.key == spec.key ? 1 : 0;
    for (const TableEntry& table : document.tables) count += spec.key.starts_with(table.key + ".") ? 1 : 0;
  }
  return count;
}

/// [fleet] is a section there, and a list of pools in a scenario.
bool deploys(const Document& document) {
  const auto has = [&](std::string_view key) {
    return std::ranges::find(document.tables, key, &TableEntry::key) != document.tables.end();
  };
  return (has("fleet") && !has("fleet.0")) || has("gateway") || has("agent") || has("planner") || has("worker.0");
}

}  // namespace

Result<FileKind> kind_of(std::string_view text, const std::string& file, std::span<const OptionSpec> recipe_keys) {
  if (is_model_config(text)) return FileKind::Llm;
  const Result<Document> document = parse_toml(text, file);
  if (!document) return std::unexpected(document.error());
  if (deploys(*document)) return FileKind::Deployment;
  int in_scenario = matching_keys(scenario_options(), *document);
  for_each_list(
      [&](const char*, const char*, const auto& options, auto) { in_scenario += matching_keys(options, *document); });
  const std::array<std::pair<int, FileKind>, 4> scores{{
      {in_scenario, FileKind::Scenario},
      {matching_keys(recipe_keys, *document), FileKind::Recipe},
      {matching_keys(gpu_options(), *document), FileKind::Gpu},
      {matching_keys(llm_options(), *document), FileKind::Llm},
  }};
  const auto best = std::ranges::max_element(scores, {}, [](const auto& score) { return score.first; });
  if (best->first == 0) {
    return bad_input(file + ":1", "has no key of a scenario, recipe, GPU, LLM or deployment file; see docs/reference");
  }
  return best->second;
}

std::vector<ReferencePage> reference_pages() {
  std::vector<ReferencePage> pages;
  std::string lists;
  for_each_list([&](const char*, const char*, const auto& options, auto) { lists += tables(options, true); });
  pages.push_back(
      {"scenario",
       std::string(kGeneratedPage) +
           "# Scenario files\n\n`scenarios/NAME.toml`: hardware, workload and objectives ([by "
           "example](../configuration.md), [terms](../glossary.md)).\n\n- `[[fleet]]`: a group of identical instances; "
           "at least one is required.\n- `[[site]]`: a data centre with its own electricity. Without one, `[carbon]` "
           "and `[cost]` apply.\n- `[[node]]`: a kind of machine on whose GPUs the instances of a scaling fleet are "
           "placed.\n- `[[fault]]`: a failure in a simulated run.\n- `[classes]` divides requests by size; `[[class]]` "
           "and `[[tier]]` state objectives in addition to `[slo]`.\n- `[[tenant]]`: a customer; `[[pool]]`: the "
           "classes of requests that some instances serve.\n\n`--set SECTION.KEY=VALUE` overrides a key. `fleet.KEY` "
           "sets it for every `[[fleet]]`, `fleet.N.KEY` for the N-th, from 0; the same holds for the other lists.\n" +
           tables(scenario_options(), false) + lists});
  pages.push_back({"gpu", std::string(kGeneratedPage) +
                              "# GPU files\n\n`specs/gpus/NAME.toml`: one GPU, as described by its data sheet. The "
                              "file's name is the GPU's name. Bandwidths are per direction.\n" +
                              tables(gpu_options(), false)});
  pages.push_back({"llm", std::string(kGeneratedPage) +
                              "# LLM files\n\n`specs/llms/NAME.toml`: the shape of one decoder-only transformer, from "
                              "its config.json. The file's name is the model's name.\n\nWherever an LLM is named, the "
                              "path of a checkpoint's `config.json` may be used instead; its folder's name is then the "
                              "model's name. `wattle config check PATH/config.json` prints it in this format.\n" +
                              tables(llm_options(), false)});
  pages.push_back({"profile", std::string(kGeneratedPage) +
                                  "# Hardware profiles\n\n`profiles/GPU.toml`: the fitted factors of the simulated "
                                  "hardware for one kind of GPU, written by `wattle fit` from measured data sets. "
                                  "`s(x)` is the voltage factor at x = clock / clock_max. This is not the profile that "
                                  "`wattle profile` measures on a live engine ([profiling](../profiling.md)).\n" +
                                  tables(profile_options(), false)});
  pages.push_back(
      {"deployment", std::string(kGeneratedPage) +
                         "# Deployment files\n\n`wattle.toml`: one file for `wattle gateway`, `wattle agent` and "
                         "`wattle planner`, which read it with `--config` ([deployment.md](../deployment.md)). "
                         "`[engine]` has the same keys as in a [scenario](scenario.md). `[gateway]`, `[agent]` and "
                         "`[planner]` have the flags of that command, with `_` instead of `-`.\n" +
                         tables(deployment_fleet_options(), false) + tables(deployment_slo_options(), false) +
                         tables(deployment_node_options(), true) + tables(deployment_worker_options(), true)});
  return pages;
}

std::string effective_text(const LoadedScenario& loaded) {
  std::string text;
  auto in_force = scenario_options();
  const auto idle = idle_keys(loaded.scenario);
  std::erase_if(in_force, [&](const auto& option) { return std::ranges::find(idle, option.key) != idle.end(); });
  append_values(text, in_force, loaded.scenario, "", [&](const std::string& key) { return loaded.origins.has(key); });
  for_each_list([&](const char* name, const char*, const auto& options, auto member) {
    const auto& elements = loaded.scenario.*member;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      text += fmt::format("\n[[{}]]\n", name);
      append_values(text, options, elements[i], name, [&](const std::string& key) {
        return loaded.origins.has(fmt::format("{}.{}.{}", name, i, leaf_of(key)));
      });
    }
  });
  return text;
}

std::string effective_text(const GpuSpec& gpu) {
  std::string text;
  append_values(text, gpu_options(), gpu, "", [](const std::string&) { return true; });
  return text;
}

std::string effective_text(const LlmSpec& llm) {
  // To be compared with what the model's card says.
  std::string text = fmt::format(
      "# {:.2f} billion parameters, {:.2f} of them multiplied for a token; {:.1f} GB of weights; {:.1f} KiB of KV "
      "cache per token\n",
      llm.parameters() / 1e9, llm.active_parameters() / 1e9, llm.weight_bytes() / 1e9,
      llm.kv_bytes_per_token() / 1024.0);
  append_values(text, llm_options(), llm, "", [](const std::string&) { return true; });
  return text;
}

}  // namespace wattle::config
