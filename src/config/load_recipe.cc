#include <filesystem>

#include "config/fleet_check.h"
#include "config/load.h"
#include "config/records.h"

namespace wattle::config {

Result<LoadedRecipe> recipe_from_text(std::string_view text, const std::string& file,
                                      const std::vector<Override>& overrides) {
  const Result<Document> parsed = parse_toml(text, file);
  if (!parsed) return std::unexpected(parsed.error());
  const Document& document = *parsed;
  LoadedRecipe loaded;
  loaded.origins = Origins(document);
  const auto specs = specs_of(recipe_options());
  std::vector<Entry> entries = document.entries;
  if (auto ok = check_keys(specs, entries, document.tables, document.file + ":1"); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  if (auto ok = apply_overrides(specs, overrides, entries, loaded.origins); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  Recipe& recipe = loaded.recipe;
  if (auto ok = fill(recipe_options(), entries, recipe); !ok) return std::unexpected(std::move(ok.error()));
  recipe.file = document.file;
  if (recipe.name.empty()) recipe.name = std::filesystem::path(document.file).stem().string();
  if (auto ok = check_recipe(loaded); !ok) return std::unexpected(std::move(ok.error()));
  return loaded;
}

Result<LoadedRecipe> load_recipe(std::string_view name_or_path, const std::vector<Override>& overrides,
                                 const Project& project) {
  const Result<std::string> file = project.find(Project::Kind::Recipe, name_or_path, "recipe");
  if (!file) return std::unexpected(file.error());
  const Result<std::string> text = read_text(*file);
  if (!text) return std::unexpected(text.error());
  return recipe_from_text(*text, *file, overrides);
}

}  // namespace wattle::config
