#include "systems/reference.h"

#include <fmt/format.h>

#include "config/record_text.h"
#include "systems/recipe_options.h"
#include "systems/registry.h"

namespace wattle::systems {

namespace {

const char* title(SlotKind slot) {
  switch (slot) {
    case SlotKind::Admission:
      return "admission";
    case SlotKind::Queueing:
      return "queueing";
    case SlotKind::Routing:
      return "routing.prefill], [routing.decode";
    case SlotKind::Frequency:
      return "frequency.prefill], [frequency.decode";
    case SlotKind::Scaling:
      return "scaling";
  }
  return "";
}

/// A slot's own keys, and below them those of each policy that may fill it.
std::string slot_text(const Section& section) {
  std::string text = fmt::format("\n## [{}]\n", title(section.slot));
  if (section.members.size() > 1) {
    text += fmt::format("\n`[{}]` sets the same key of both; a key written in one of them wins.\n", section.name);
  }
  text += config::kTableHead;
  const Recipe defaults;
  for (const auto& option : head_options(section)) text += config::table_row(option, option.get(defaults));
  for (const PolicyEntry& entry : registry().entries()) {
    if (entry.slot != section.slot) continue;
    text += fmt::format("\n### policy = \"{}\"\n\n{}.\n", entry.name, entry.description);
    if (!entry.options.empty()) text += config::kTableHead;
    for (const auto& option : entry.options) text += config::table_row(option, option.get(entry.defaults));
  }
  return text;
}

std::string recipe_page() {
  std::string text =
      std::string(config::kGeneratedPage) +
      "# Recipe files\n\n"
      "`recipes/NAME.toml`: which policies run, and how. Instances with role prefill take "
      "`[frequency.prefill]`, decode and colocated ones `[frequency.decode]`.\n"
      "A slot takes its policy's own keys and no others. Keys may also be set with `--set "
      "SECTION.KEY=VALUE`.\n\n"
      "`extends = \"NAME\"` starts from another recipe, a file beside this one or one of the project's; "
      "a slot that names another policy leaves behind what the slot had.\n\n"
      "Clocks are whole MHz or, on any GPU, `\"max\"` and `\"min\"` (the highest and lowest it can "
      "lock), `\"0.7x\"` (that share of the highest, at the nearest step), `\"sweet+25%\"` (a quarter of the way "
      "from the sweet spot to the highest; `\"sweet-25%\"`: a quarter of the way down to the lowest at which such a "
      "GPU was measured or, if none was, to the lowest it can lock) and `\"sweet\"`: the clock of "
      "least energy per token of the instance's own busiest kind of step (2,048 prompt tokens, or 128 "
      "decodes with 1,024 tokens of context), by the engine's profile.\n";
  text += config::tables(general_options(), false);
  for (const Section& section : sections()) {
    const bool refined = section.name.find('.') != std::string::npos;
    if (!refined) text += slot_text(section);
  }
  return text;
}

}  // namespace

std::vector<config::ReferencePage> reference_pages() {
  auto pages = config::reference_pages();
  pages.insert(pages.begin() + 1, {"recipe", recipe_page()});
  return pages;
}

std::string effective_text(const LoadedRecipe& loaded) {
  std::string text;
  config::append_values(text, recipe_options(loaded.recipe), loaded.recipe, "", [&](const std::string& key) {
    if (loaded.origins.has(key)) return true;
    const std::string parent = config::section_of(config::section_of(key));
    return !parent.empty() && loaded.origins.has(parent + "." + config::leaf_of(key));  // through the shorthand
  });
  return text;
}

}  // namespace wattle::systems
