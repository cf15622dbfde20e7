#pragma once
// Everything `wattle validate` scores: the rows of src/fidelity and, of the papers' evaluations, whole runs.
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "fidelity/page.h"
#include "fidelity/seen_rows.h"
#include "reproduce/evaluation.h"

namespace wattle::reproduce {

struct Validation {
  fidelity::Scores scores;
  std::vector<std::string> absent;  ///< data sets that are not there, rows that are not scored
  std::vector<fidelity::RunTarget> of_runs;
  std::map<std::string, Section> whole_runs;  ///< by set: evaluations that contain these rows and targets
};

/// Data sets under `data` (any subset), evaluations with the data of WATTLE_DATA. Rows that are not `seen` never count
/// as fitted. Errors: malformed data.
[[nodiscard]] Result<Validation> validation(const std::string& data, const fidelity::Catalog& catalog,
                                            const fidelity::SeenRows& seen, unsigned threads);

/// Rows of whole runs that were in view when a hand set constants, without ours; `data` is WATTLE_DATA, too. Errors:
/// malformed data.
[[nodiscard]] Result<std::vector<fidelity::Experiment>> whole_runs_in_view(const std::string& data);

}  // namespace wattle::reproduce
