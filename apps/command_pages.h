#pragma once
// Manual pages and shell completion, generated from the declared commands and flags.
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace wattle::apps {

struct ManualPage {
  std::string name;  ///< "wattle-gateway"
  std::string text;  ///< roff, section 1
};

/// The program's page and one of each subcommand; hidden ones have none.
[[nodiscard]] std::vector<ManualPage> manual_pages(const CLI::App& program, const std::string& version);

/// A script for "bash", "zsh" or "fish" that completes subcommands, flags and the values a flag takes, and files.
[[nodiscard]] std::string completion_script(const CLI::App& program, const std::string& shell);

}  // namespace wattle::apps
