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
    text +=
        fmt::format("\n`[{}]` sets a key for both; a key in one of the two sections takes precedence.\n", section.name);
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
      "# Recipe files\n\n`recipes/NAME.toml`: which policies run, and their options. Prefill instances use "
      "`[frequency.prefill]`, decode and colocated instances `[frequency.decode]`.\nA section takes only the keys of "
      "its policy. Any key may also be set with `--set SECTION.KEY=VALUE`.\n\n`extends = \"NAME\"` starts from another "
      "recipe, in the same folder or one of the project's. A section that names a different policy drops the other "
      "recipe's options for it.\n\nA clock is a whole number of MHz or, on any GPU, one of:\n\n- `\"max\"`, `\"min\"`: "
      "the highest and lowest clock that the GPU can lock\n- `\"0.7x\"`: a share of the highest clock, rounded to the "
      "nearest step\n- `\"sweet\"`: the sweet spot, the clock of least energy per token by the engine's profile, for "
      "2,048 prompt tokens (prefill) or 128 decodes with 1,024 tokens of context\n- `\"sweet+25%\"`: a quarter of the "
      "way from the sweet spot to the highest clock\n- `\"sweet-25%\"`: a quarter of the way from the sweet spot down "
      "to the lowest clock at which this GPU was measured or, if none of them is as low as the sweet spot, the lowest "
      "that it can lock\n";
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
