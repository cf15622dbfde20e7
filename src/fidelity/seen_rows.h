#pragma once
// Which measured rows a fit, or a hand that chose conventions, has seen: by what was measured, not by where it lies.
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
  /// Of what text() wrote; lines that start with # are comments. Errors: a word that is no digest, by line (BadInput).
  [[nodiscard]] static Result<SeenRows> parse(std::string_view text, const std::string& where);
  [[nodiscard]] std::string text() const;

  /// By GPU, condition and measured values to six digits; the set's name is ours and may change.
  void add(const Experiment& row);
  [[nodiscard]] bool contains(const Experiment& row) const;
  [[nodiscard]] std::size_t size() const { return digests_.size(); }

 private:
  std::set<std::uint32_t> digests_;  ///< one unseen row in 400,000 passes for seen at 10,000 of them
};

/// Rows that count as fitted or in view and are not among `seen` no longer do: another folder's.
void keep_seen(std::vector<Experiment>& rows, const SeenRows& seen);

/// The file's name, beside the profiles.
inline constexpr std::string_view kSeenRows = "seen.txt";

}  // namespace wattle::fidelity
