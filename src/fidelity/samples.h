#pragma once
#include <cstdint>
#include <vector>

namespace wattle::fidelity {

/// NaN of no values.
[[nodiscard]] double mean_of(const std::vector<double>& values);
/// The smallest value that a share `p` of all values does not exceed; NaN without values.
[[nodiscard]] double percentile(std::vector<double> values, double p);

/// Token gaps stored by runs of steps, so that memory does not grow with the number of tokens.
class Gaps {
 public:
  /// `steps` gaps of first + i x increment (increment >= 0), each seen by `requests`.
  void add(std::int64_t first, std::int64_t increment, std::int64_t steps, std::int64_t requests);
  [[nodiscard]] bool empty() const { return runs_.empty(); }
  /// percentile() of all gaps; 0 without gaps.
  [[nodiscard]] std::int64_t percentile(double p) const;

 private:
  struct Run {
    std::int64_t first;
    std::int64_t increment;
    std::int64_t steps;
    std::int64_t requests;
    [[nodiscard]] std::int64_t up_to(std::int64_t value) const;
  };
  std::vector<Run> runs_;
  std::int64_t gaps_ = 0;
};

}  // namespace wattle::fidelity
