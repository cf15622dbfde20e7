#pragma once
// The measured rows that a fit, or a manual choice of conventions, has used: identified by their content, not their
// location.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fidelity/experiment.h"

namespace wattle::fidelity {

class SeenRows {
 public:
  /// Parses the output of text(); lines that start with # are comments. Errors: a word that is not a digest, with its
  /// line (BadInput).
  [[nodiscard]] static Result<SeenRows> parse(std::string_view text, const std::string& where);
  [[nodiscard]] std::string text() const;

  /// Identifies a row by GPU, condition and measured values to six digits, not by the set's name, which may change.
  void add(const Experiment& row);
  [[nodiscard]] bool contains(const Experiment& row) const;
  [[nodiscard]] std::size_t size() const { return digests_.size(); }

 private:
  std::set<std::uint32_t> digests_;  ///< with 10,000 entries, one unused row in 400,000 counts as used
};

/// Rows marked as fitted or in view that are not among `seen` (from another folder) are no longer marked.
void keep_seen(std::vector<Experiment>& rows, const SeenRows& seen);

/// Name of the file, next to the profiles.
inline constexpr std::string_view kSeenRows = "seen.txt";

}  // namespace wattle::fidelity
