#pragma once
// Everything `wattle validate` scores: the rows of src/fidelity and, of the papers' evaluations, whole runs.
#include <string>
#include <vector>

#include "base/error.h"
#include "fidelity/page.h"

namespace wattle::reproduce {

struct Validation {
  fidelity::Scores scores;
  std::vector<std::string> absent;  ///< data sets that are not there
  std::vector<fidelity::RunTarget> of_runs;
};

/// Data sets under `data` (any subset), evaluations with the data of WATTLE_DATA. Errors: malformed data.
[[nodiscard]] Result<Validation> validation(const std::string& data, const fidelity::Catalog& catalog,
                                            unsigned threads);

}  // namespace wattle::reproduce
