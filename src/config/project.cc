#include "config/project.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <system_error>

#include "config/fill.h"

namespace wattle::config {
namespace {

struct Place {
  const char* folder;
  const char* noun;
};

Place place_of(Project::Kind kind) {
  switch (kind) {
    case Project::Kind::Scenario:
      return {"scenarios", "scenario"};
    case Project::Kind::Recipe:
      return {"recipes", "recipe"};
    case Project::Kind::Gpu:
      return {"specs/gpus", "GPU"};
    case Project::Kind::Llm:
      return {"specs/llms", "LLM"};
    case Project::Kind::Profile:
      return {"profiles", "hardware profile"};
  }
  return {"", ""};
}

}  // namespace

Result<std::string> Project::find(Kind kind, std::string_view name, const std::string& where,
                                  const std::filesystem::path& beside) const {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const Place place = place_of(kind);
  if (name.find('/') != std::string_view::npos || name.ends_with(".toml") || name.ends_with(".json")) {
    for (const fs::path& path : {beside / name, fs::path(name)}) {
      if (fs::is_regular_file(path, ignored)) return path.string();
      const fs::path config = path / "config.json";  // a checkpoint's folder
      if (kind == Kind::Llm && fs::is_regular_file(config, ignored)) return config.string();
    }
    // "scenarios/x.toml" from any working directory.
    for (const fs::path& root : roots_) {
      if (fs::is_regular_file(root / name, ignored)) return (root / name).string();
    }
    const bool folder = fs::is_directory(fs::path(name), ignored);
    return bad_input(
        where, folder ? fmt::format("{} is a directory; name a file", name) : fmt::format("no such file: {}", name));
  }
  const std::string file = std::string(name) + ".toml";
  for (const fs::path& root : roots_) {
    const fs::path path = root / place.folder / file;
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  const std::vector<std::string> known = names(kind);
  const std::string near = nearest(name, known);
  return bad_input(where,
                   fmt::format("unknown {} \"{}\"{}; known: {} (a new one is a file {}/NAME.toml)", place.noun, name,
                               near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near),
                               known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")), place.folder));
}

std::vector<std::string> Project::names(Kind kind) const {
  namespace fs = std::filesystem;
  std::set<std::string> sorted;
  for (const fs::path& root : roots_) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(root / place_of(kind).folder, ignored)) {
      if (entry.path().extension() == ".toml") sorted.insert(entry.path().stem().string());
    }
  }
  return {sorted.begin(), sorted.end()};
}

Result<std::vector<std::string>> Project::some_names(Kind kind) const {
  std::vector<std::string> all = names(kind);
  if (!all.empty()) return all;
  std::vector<std::string> looked_at;
  for (const std::filesystem::path& root : roots_) looked_at.push_back((root / place_of(kind).folder).string());
  return bad_input(fmt::format("{}", fmt::join(looked_at, ", ")),
                   fmt::format("holds no {}; set WATTLE_HOME to the folder with scenarios/, recipes/, specs/ and "
                               "profiles/",
                               place_of(kind).noun));
}

}  // namespace wattle::config
