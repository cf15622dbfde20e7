#pragma once
// Where named files lie: specs, recipes, scenarios. The folders are given by the app; nothing here knows the machine.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wattle::config {

class Project {
 public:
  enum class Kind { Scenario, Recipe, Gpu, Llm, Profile };

  /// Folders that hold scenarios/, recipes/, specs/, profiles/; earlier ones win.
  explicit Project(std::vector<std::filesystem::path> roots) : roots_(std::move(roots)) {}

  /// The file of a name ("h100"), or of a path when `name` has a slash or ends in .toml: in the folder `beside`, else
  /// from the working directory. Unknown names list the known.
  [[nodiscard]] Result<std::string> find(Kind kind, std::string_view name, const std::string& where,
                                         const std::filesystem::path& beside = {}) const;

  /// Every known name, sorted.
  [[nodiscard]] std::vector<std::string> names(Kind kind) const;
  /// The same, where there should be some. Errors: there is none, naming the folders looked at.
  [[nodiscard]] Result<std::vector<std::string>> some_names(Kind kind) const;

 private:
  std::vector<std::filesystem::path> roots_;
};

}  // namespace wattle::config
