#include "config/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/profile.h"
#include "config/records.h"

namespace wattle::config {
namespace {

std::string section_of(const std::string& key) {
  const auto dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}
std::string leaf_of(const std::string& key) { return key.substr(key.rfind('.') + 1); }

/// "|" would end a Markdown table's cell.
std::string cell(std::string text) {
  for (auto at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text.empty() ? " " : text;
}

/// One Markdown table per section, in the records' order.
template <typename S>
std::string tables(const std::vector<Option<S>>& options, bool list) {
  const S defaults{};
  std::string text;
  std::string section = "\n";  // no section is called so: the first row opens a table
  for (const Option<S>& option : options) {
    if (section_of(option.key) != section) {
      section = section_of(option.key);
      if (!section.empty()) text += fmt::format("\n## {0}{1}{2}\n", list ? "[[" : "[", section, list ? "]]" : "]");
      if (option.shorthand) text += "\nSets the same key of every section below it; a key written there wins.\n";
      text += "\n| key | type | unit | bounds | default | meaning |\n|---|---|---|---|---|---|\n";
    }
    const std::string standard = option.required ? "required" : "`" + to_text(option.get(defaults)) + "`";
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", leaf_of(option.key), cell(type_text(option)),
                        cell(option.unit), cell(to_text(option.bounds)), standard, cell(option.description));
  }
  return text;
}

constexpr const char* kGenerated =
    "<!-- Generated from the option records by `wattle config reference --write docs/reference`; do not edit. -->\n";

/// `key = value` lines under their section's header; `written` says whether a dotted key was in the file.
template <typename S, typename Written>
void append_values(std::string& text, const std::vector<Option<S>>& options, const S& s, std::string section,
                   const Written& written) {
  for (const Option<S>& option : options) {
    if (option.shorthand) continue;
    if (section_of(option.key) != section) {
      section = section_of(option.key);
      text += fmt::format("\n[{}]\n", section);
    }
    const Value value = option.get(s);
    const std::string mark = written(option.key) ? "" : "  # default";
    if (std::holds_alternative<std::monostate>(value)) {
      text += fmt::format("# {}: none{}\n", leaf_of(option.key), mark.empty() ? "" : ", the default");
    } else {
      text += fmt::format("{} = {}{}\n", leaf_of(option.key), to_text(value), mark);
    }
  }
}

template <typename S>
int matching_keys(const std::vector<Option<S>>& options, const Document& document) {
  int count = 0;
  for (const Option<S>& option : options) {
    for (const Entry& entry : document.entries) count += entry.key == option.key ? 1 : 0;
    for (const TableEntry& table : document.tables) count += option.key.starts_with(table.key + ".") ? 1 : 0;
  }
  return count;
}

}  // namespace

Result<FileKind> kind_of(std::string_view text, const std::string& file) {
  const Result<Document> document = parse_toml(text, file);
  if (!document) return std::unexpected(document.error());
  const std::array<std::pair<int, FileKind>, 4> scores{{
      {matching_keys(scenario_options(), *document) + matching_keys(pool_options(), *document), FileKind::Scenario},
      {matching_keys(recipe_options(), *document), FileKind::Recipe},
      {matching_keys(gpu_options(), *document), FileKind::Gpu},
      {matching_keys(llm_options(), *document), FileKind::Llm},
  }};
  const auto best = std::ranges::max_element(scores, {}, [](const auto& score) { return score.first; });
  if (best->first == 0) {
    return bad_input(file + ":1", "has no key of a scenario, recipe, GPU or LLM file; see docs/reference");
  }
  return best->second;
}

std::vector<ReferencePage> reference_pages() {
  std::vector<ReferencePage> pages;
  pages.push_back({"scenario", std::string(kGenerated) +
                                   "# Scenario files\n\n"
                                   "`scenarios/NAME.toml`: hardware, workload and objectives. Each `[[fleet]]` is a "
                                   "pool of equal instances; a scenario needs at least one.\n"
                                   "`--set SECTION.KEY=VALUE` overrides a key; `fleet.KEY` means every pool, "
                                   "`fleet.N.KEY` the N-th, from 0.\n" +
                                   tables(scenario_options(), false) + tables(pool_options(), true)});
  pages.push_back({"recipe", std::string(kGenerated) +
                                 "# Recipe files\n\n"
                                 "`recipes/NAME.toml`: which policies run, and how. Instances with role prefill take "
                                 "`[frequency.prefill]`, decode and colocated ones `[frequency.decode]`.\n"
                                 "Keys may also be set with `--set SECTION.KEY=VALUE`.\n" +
                                 tables(recipe_options(), false)});
  pages.push_back({"gpu", std::string(kGenerated) +
                              "# GPU files\n\n`specs/gpus/NAME.toml`: one GPU as its data sheet has it. The file's "
                              "name is the GPU's name. Bandwidths are per direction.\n" +
                              tables(gpu_options(), false)});
  pages.push_back({"llm", std::string(kGenerated) +
                              "# LLM files\n\n`specs/llms/NAME.toml`: the shape of one decoder-only transformer, from "
                              "its config.json. The file's name is the model's name.\n" +
                              tables(llm_options(), false)});
  pages.push_back({"profile", std::string(kGenerated) +
                                  "# Hardware profiles\n\n`profiles/GPU.toml`: the fitted factors of the simulated "
                                  "hardware of one kind of GPU, as `wattle fit` writes them from the data sets; "
                                  "`s(x)` is the voltage factor at x = clock / clock_max. Not to be confused with "
                                  "what `wattle profile` measures of a live engine (../profiling.md).\n" +
                                  tables(profile_options(), false)});
  return pages;
}

std::string effective_text(const LoadedScenario& loaded) {
  std::string text;
  append_values(text, scenario_options(), loaded.scenario, "",
                [&](const std::string& key) { return loaded.origins.has(key); });
  for (std::size_t i = 0; i < loaded.scenario.pools.size(); ++i) {
    text += "\n[[fleet]]\n";
    append_values(text, pool_options(), loaded.scenario.pools[i], "fleet", [&](const std::string& key) {
      return loaded.origins.has(fmt::format("fleet.{}.{}", i, leaf_of(key)));
    });
  }
  return text;
}

std::string effective_text(const LoadedRecipe& loaded) {
  std::string text;
  append_values(text, recipe_options(), loaded.recipe, "", [&](const std::string& key) {
    if (loaded.origins.has(key)) return true;
    const std::string parent = section_of(section_of(key));
    return !parent.empty() && loaded.origins.has(parent + "." + leaf_of(key));  // through the shorthand
  });
  return text;
}

std::string effective_text(const GpuSpec& gpu) {
  std::string text;
  append_values(text, gpu_options(), gpu, "", [](const std::string&) { return true; });
  return text;
}

std::string effective_text(const LlmSpec& llm) {
  std::string text;
  append_values(text, llm_options(), llm, "", [](const std::string&) { return true; });
  return text;
}

}  // namespace wattle::config
