#pragma once
// Files of requests and how long their answers became, for `wattle forecast length`.
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "predict/prompt_features.h"

namespace wattle::apps {

struct LengthRow {
  std::string prompt = {};  ///< empty: not known
  std::string tenant = {};
  std::string model = {};
  std::int32_t prompt_tokens = 0;  ///< 0: not known
  std::int32_t max_tokens = 0;     ///< likewise
  std::int32_t output_tokens = 0;  ///< likewise, where answers are not needed

  [[nodiscard]] predict::PromptFeatures features() const {
    return predict::features_of({prompt_tokens, max_tokens, tenant, model}, prompt);
  }
};

struct LengthRows {
  std::vector<LengthRow> rows;  ///< in the file's order, which is taken for that of time
  bool has_text = false;        ///< of any
};

/// JSON lines, {"prompt": "..." (or "messages": [...]), "output_tokens": n} and, where known, "prompt_tokens",
/// "max_tokens", "tenant" and "model"; a CSV with columns of these names; or any trace that `wattle sim` reads, which
/// has no text. `answers`: output_tokens has to be there. Errors: with file and line.
[[nodiscard]] Result<LengthRows> read_lengths(const std::string& path, bool answers);

}  // namespace wattle::apps
