#pragma once
// Texts made from the option records: the pages of docs/reference/ and a file's effective values.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/load.h"

namespace wattle::config {

/// What kind of file a text is, by its keys.
enum class FileKind { Scenario, Recipe, Gpu, Llm };

/// The kind most of whose keys the text uses. Errors: not TOML; no key of any kind.
[[nodiscard]] Result<FileKind> kind_of(std::string_view text, const std::string& file);

struct ReferencePage {
  std::string name;  ///< "scenario": docs/reference/scenario.md
  std::string text;  ///< Markdown
};

/// One page per kind of file, every key with type, unit, bounds, default and description.
[[nodiscard]] std::vector<ReferencePage> reference_pages();

/// Every key with the value in force, as a file of the same kind; keys that were not written are marked. Loading the
/// text gives the same struct.
[[nodiscard]] std::string effective_text(const LoadedScenario& loaded);
[[nodiscard]] std::string effective_text(const LoadedRecipe& loaded);
[[nodiscard]] std::string effective_text(const GpuSpec& gpu);
[[nodiscard]] std::string effective_text(const LlmSpec& llm);

}  // namespace wattle::config
