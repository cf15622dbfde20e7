#pragma once
// Small texts the tests start from: valid as they stand, so one edit is the only thing wrong.
#include <string>

#include "config/project.h"

namespace wattle::config::testing {

/// The shipped specs; config_test is compiled with the tree's path.
inline Project project() { return Project({WATTLE_SOURCE_DIR}); }

inline const std::string kScenario = R"(llm = "llama-3.1-8b"
[workload]
rate_per_s = 2
[slo]
ttft_ms = 600
[[fleet]]
role = "colocated"
gpu = "a100-80g"
)";

inline const std::string kRecipe = R"([frequency]
policy = "eco-freq"
clocks_mhz = [1005, 1410]
[frequency.decode]
margin = 0.1
)";

/// `text` with the first `from` replaced by `to`.
inline std::string edited(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  if (at == std::string::npos) return "the edit's text is not there";
  return text.replace(at, from.size(), to);
}

}  // namespace wattle::config::testing
