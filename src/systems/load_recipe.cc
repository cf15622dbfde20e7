#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "config/load.h"
#include "config/names_check.h"
#include "config/toml_document.h"
#include "systems/recipe.h"
#include "systems/recipe_options.h"

namespace wattle::systems {

namespace {

using config::Document;
using config::Entry;
using config::OptionSpec;
using config::Override;

/// A file's own entries follow those of the file it extends. Errors: with the place of the key `extends`.
Result<std::vector<Document>> read_chain(std::string_view text, const std::string& file,
                                         const config::Project& project) {
  std::vector<Document> chain;  // the file first
  std::vector<std::string> seen{file};
  auto parsed = config::parse_toml(text, file);
  for (;;) {
    if (!parsed) return std::unexpected(parsed.error());
    Document& document = chain.emplace_back(std::move(*parsed));
    const auto extends = std::ranges::find(document.entries, std::string("extends"), &Entry::key);
    if (extends == document.entries.end()) break;
    const auto* base = std::get_if<std::string>(&extends->value);
    const std::string where = extends->where;
    if (base == nullptr || base->empty()) return bad_input(where, "extends is the name of a recipe, in quotes");
    const auto beside =
        std::filesystem::path(document.file).parent_path() / (base->ends_with(".toml") ? *base : *base + ".toml");
    std::error_code ignored;
    std::string next = beside.string();
    if (!std::filesystem::exists(beside, ignored)) {
      const auto found = project.find(config::Project::Kind::Recipe, *base, where + ": extends");
      if (!found) return std::unexpected(found.error());
      next = *found;
    }
    const auto same = [&](const std::string& one) {
      return one == next || std::filesystem::equivalent(one, next, ignored);
    };
    if (std::ranges::any_of(seen, same)) {
      return bad_input(where,
                       fmt::format("extends = \"{}\" is circular: {} -> {}", *base, fmt::join(seen, " -> "), next));
    }
    seen.push_back(next);
    document.entries.erase(extends);
    const auto base_text = config::read_text(next);
    if (!base_text) return std::unexpected(base_text.error());
    parsed = config::parse_toml(*base_text, next);
  }
  std::ranges::reverse(chain);
  // Name and description are not inherited.
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
    std::erase_if(chain[i].entries, [](const Entry& e) { return e.key == "name"; });
  }
  return chain;
}

/// Which layer (of the chain, or the overrides after it) last named the policy of a member.
using NamedBy = std::vector<std::pair<PolicyChoice Recipe::*, std::size_t>>;

Result<void> name_policy(const Section& section, const Entry& entry, std::size_t layer, Recipe& recipe,
                         NamedBy& named_by) {
  const auto heads = head_options(section);
  const auto value = config::checked(heads.front(), entry);
  if (!value) return std::unexpected(value.error());
  for (const auto member : section.members) {
    (recipe.*member).policy = std::get<std::string>(*value);
    named_by.emplace_back(member, layer);
  }
  return {};
}

/// The policies must be known before any option is read.
Result<NamedBy> name_policies(const std::vector<Document>& chain, const std::vector<Override>& overrides,
                              Recipe& recipe) {
  NamedBy named_by;
  for (std::size_t layer = 0; layer <= chain.size(); ++layer) {
    for (const Section& section : sections()) {
      const std::string key = section.name + ".policy";
      if (layer < chain.size()) {
        const auto entry = std::ranges::find(chain[layer].entries, key, &Entry::key);
        if (entry == chain[layer].entries.end()) continue;
        if (auto ok = name_policy(section, *entry, layer, recipe, named_by); !ok) return std::unexpected(ok.error());
        continue;
      }
      for (const Override& o : overrides) {
        if (o.key != key) continue;
        const auto entry = config::entry_from_text(head_options(section).front(), o);
        if (!entry) return std::unexpected(entry.error());
        if (auto ok = name_policy(section, *entry, layer, recipe, named_by); !ok) return std::unexpected(ok.error());
      }
    }
  }
  return named_by;
}

/// The innermost section of a key.
const Section* section_of(std::string_view key) {
  const Section* found = nullptr;
  for (const Section& section : sections()) {
    if (key.starts_with(section.name + ".") && (found == nullptr || section.name.size() > found->name.size())) {
      found = &section;
    }
  }
  return found;
}

/// An option of another policy of this slot: {its name, those that have it}; empty for anything else.
std::string others_with(const Section& section, std::string_view key) {
  const std::string_view leaf = key.substr(section.name.size() + 1);
  std::vector<std::string> others;
  for (const PolicyEntry& entry : registry().entries()) {
    if (entry.slot != section.slot) continue;
    if (std::ranges::find(entry.options, leaf, &config::Option<std::any>::key) != entry.options.end()) {
      others.push_back(entry.name);
    }
  }
  return fmt::format("{}", fmt::join(others, ", "));
}

/// Drops from a lower layer what belonged to a policy that a higher one has replaced; refuses it elsewhere.
Result<void> keep_own(std::vector<Entry>& entries, std::size_t layer, const std::vector<const OptionSpec*>& specs,
                      const Recipe& recipe, const NamedBy& named_by) {
  for (auto entry = entries.begin(); entry != entries.end();) {
    const bool known = std::ranges::any_of(specs, [&](const OptionSpec* s) { return s->key == entry->key; });
    const Section* section = known ? nullptr : section_of(entry->key);
    const std::string others = section == nullptr ? std::string() : others_with(*section, entry->key);
    if (others.empty()) {
      ++entry;
      continue;
    }
    const bool replaced = std::ranges::any_of(section->members, [&](const auto member) {
      return std::ranges::any_of(named_by, [&](const auto& n) { return n.first == member && n.second > layer; });
    });
    if (!replaced) {
      return bad_input(entry->where, fmt::format("{} is an option of {}; the policy here is {}", entry->key, others,
                                                 (recipe.*(section->members.front())).policy));
    }
    entry = entries.erase(entry);
  }
  return {};
}

Result<void> check_options(const LoadedRecipe& loaded) {
  for (const Section& section : sections()) {
    if (section.members.size() > 1) continue;
    const PolicyChoice& choice = loaded.recipe.*(section.members.front());
    const PolicyEntry& entry = entry_of(section.slot, choice);
    if (!entry.problem) continue;
    const auto [key, problem] = entry.problem(options_in(entry, choice));
    if (problem.empty()) continue;
    return bad_input(place_of(loaded.origins, section.name, key), problem);
  }
  return {};
}

}  // namespace

std::string place_of(const config::Origins& origins, const std::string& section, std::string_view key) {
  const std::string own = fmt::format("{}.{}", section, key);
  const std::string shorthand = fmt::format("{}.{}", section.substr(0, section.find('.')), key);
  if (origins.has(own) || !origins.has(shorthand)) return origins.of(own);
  return origins.of(shorthand);
}

Error of_recipe(Error error, const Recipe& recipe) {
  if (recipe.origins && recipe.origins->has(error.where)) {
    const std::string origin = recipe.origins->of(error.where);  // an error of --set names the key
    error.where = origin.ends_with(error.where) ? origin : fmt::format("{}: {}", origin, error.where);
  }
  if (!recipe.name.empty() && (recipe.file.empty() || error.message().find(recipe.file) == std::string::npos)) {
    error.what += fmt::format(" (recipe {})", recipe.name);
  }
  return error;
}

Result<LoadedRecipe> recipe_from_text(std::string_view text, const std::string& file,
                                      const std::vector<Override>& overrides, const config::Project& project,
                                      Unfit unfit) {
  auto chain = read_chain(text, file, project);
  if (!chain) return std::unexpected(chain.error());
  LoadedRecipe loaded;
  Recipe& recipe = loaded.recipe;
  loaded.origins = config::Origins(chain->back());
  const auto named_by = name_policies(*chain, overrides, recipe);
  if (!named_by) return std::unexpected(named_by.error());
  const auto options = recipe_options(recipe);
  const auto specs = config::specs_of(options);
  for (std::size_t layer = 0; layer < chain->size(); ++layer) {
    Document& document = (*chain)[layer];
    if (auto ok = keep_own(document.entries, layer, specs, recipe, *named_by); !ok) return std::unexpected(ok.error());
    if (auto ok = check_keys(specs, document.entries, document.tables, document.file + ":1"); !ok) {
      return std::unexpected(std::move(ok.error()));
    }
    if (auto ok = fill(options, document.entries, recipe); !ok) return std::unexpected(std::move(ok.error()));
    for (const Entry& entry : document.entries) loaded.origins.note(entry.key, entry.where);
  }
  std::vector<Override> fitting;
  for (const Override& o : overrides) {
    const Section* section = section_of(o.key);
    const bool known = std::ranges::any_of(specs, [&](const OptionSpec* s) { return s->key == o.key; });
    const auto others = known || section == nullptr ? std::string() : others_with(*section, o.key);
    if (others.empty()) {
      fitting.push_back(o);
    } else if (unfit == Unfit::Refused) {
      return bad_input(o.where(), fmt::format("is an option of {}; the policy here is {}", others,
                                              (recipe.*(section->members.front())).policy));
    }
  }
  std::vector<Entry> last;
  if (auto ok = apply_overrides(specs, fitting, last, loaded.origins); !ok) return std::unexpected(ok.error());
  if (auto ok = fill(options, last, recipe); !ok) return std::unexpected(std::move(ok.error()));
  for (const Override& o : fitting) {
    const std::string needed = unfit == Unfit::Refused ? needed_by(recipe, o.key) : std::string();
    if (!needed.empty()) return bad_input(o.where(), fmt::format("{} does nothing without {}", o.key, needed));
  }
  recipe.file = file;
  if (!loaded.origins.has("name")) recipe.name = std::filesystem::path(file).stem().string();
  if (auto ok = config::check_file_name(loaded.origins, recipe.name); !ok) return std::unexpected(ok.error());
  if (auto ok = check_options(loaded); !ok) return std::unexpected(std::move(ok.error()));
  recipe.origins = std::make_shared<const config::Origins>(loaded.origins);
  return loaded;
}

Result<LoadedRecipe> load_recipe(std::string_view name_or_path, const std::vector<Override>& overrides,
                                 const config::Project& project, Unfit unfit) {
  const auto file = project.find(config::Project::Kind::Recipe, name_or_path, "--recipe");
  if (!file) return std::unexpected(file.error());
  const auto text = config::read_text(*file);
  if (!text) return std::unexpected(text.error());
  return recipe_from_text(*text, *file, overrides, project, unfit);
}

bool took(const LoadedRecipe& loaded, const Override& override_) {
  return loaded.origins.has(override_.key) && loaded.origins.of(override_.key) == override_.where() &&
         needed_by(loaded.recipe, override_.key).empty();
}

Result<SplitOverrides> split_overrides(const std::vector<Override>& overrides) {
  std::vector<const OptionSpec*> recipe;
  for (const OptionSpec& spec : recipe_keys()) {
    // Both files have a name and a description; a run's are the scenario's.
    if (spec.key != "name" && spec.key != "description" && spec.key != "extends") recipe.push_back(&spec);
  }
  SplitOverrides split;
  for (const Override& o : overrides) {
    const Override& first = *std::ranges::find(overrides, o.key, &Override::key);
    if (&first != &o) {
      return bad_input(o.where(), fmt::format("{} is given twice: {} by {} and {} here; keep one", o.key, first.text,
                                              first.where(), o.text));
    }
    if (std::ranges::any_of(recipe, [&](const OptionSpec* spec) { return spec->key == o.key; })) {
      split.recipe.push_back(o);
    } else if (config::is_scenario_key(o.key)) {
      split.scenario.push_back(o);
    } else {
      std::vector<const OptionSpec*> all = config::scenario_keys();
      all.insert(all.end(), recipe.begin(), recipe.end());
      return std::unexpected(unknown_key(o.key, o.where(), all));
    }
  }
  return split;
}

}  // namespace wattle::systems
