#pragma once
// Texts made from the option records: the pages of docs/reference/ and a file's effective values.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/load.h"

namespace wattle::config {

/// What kind of file a text is, by its keys.
enum class FileKind { Scenario, Recipe, Gpu, Llm, Deployment };

/// A deployment where a section says so that no other kind has, else the kind most of whose keys the text uses; recipes
/// have `recipe_keys` (systems/recipe_options.h). Errors: not TOML; no key of any kind.
[[nodiscard]] Result<FileKind> kind_of(std::string_view text, const std::string& file,
                                       std::span<const OptionSpec> recipe_keys);

struct ReferencePage {
  std::string name;  ///< "scenario": docs/reference/scenario.md
  std::string text;  ///< Markdown
};

/// First line of each page.
inline constexpr const char* kGeneratedPage =
    "<!-- Generated from the option records by `wattle config reference --out docs/reference`; do not edit. -->\n";

/// One page per kind of file except recipes (systems/reference.h), every key with type, unit, bounds, default and
/// description.
[[nodiscard]] std::vector<ReferencePage> reference_pages();

/// Every key with the value in force, as a file of the same kind; keys that were not written are marked. Loading the
/// text gives the same struct.
[[nodiscard]] std::string effective_text(const LoadedScenario& loaded);
[[nodiscard]] std::string effective_text(const GpuSpec& gpu);
[[nodiscard]] std::string effective_text(const LlmSpec& llm);

}  // namespace wattle::config
