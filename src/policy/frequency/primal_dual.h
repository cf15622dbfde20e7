#pragma once
// The controller that MIAD approximates (FREESH, section IV-B): maximise the users' utilities less the power's price,
//   max over y, f of  sum_i w_i log y_i - beta P(f),  sum_i y_i <= r(f),
// by gradient steps on the Lagrangian, y += k (U' - gamma), f += k (gamma r' - beta P'), gamma += k (sum y - r), each
// kept in its range.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

namespace wattle::policy {

/// Power and rate of an instance against its clock; smooth enough for central differences over `step` (GHz).
struct ClockCurves {
  std::function<double(double ghz)> power_w;
  std::function<double(double ghz)> rate_per_s;  ///< tokens/s it can produce
  double lowest_ghz = 0.21;
  double highest_ghz = 1.41;
  double step = 0.005;

  [[nodiscard]] double slope(const std::function<double(double)>& of, double ghz) const {
    const double low = std::max(ghz - step, lowest_ghz);
    const double high = std::min(ghz + step, highest_ghz);
    return (of(high) - of(low)) / (high - low);
  }
};

struct PrimalDualOptions {
  double price = 0.01;          ///< beta: utility per watt
  std::vector<double> weights;  ///< w_i of each flow, > 0
  double gain_rate = 0.0;       ///< k of y; 0: chosen from the curves, as are the others
  double gain_clock = 0.0;
  double gain_dual = 0.0;
};

class PrimalDual {
 public:
  PrimalDual(ClockCurves curves, PrimalDualOptions options);

  /// One iteration of all three.
  void step();
  /// At the optimum of log utilities y_i = w_i / gamma, sum y = r(f), and beta P'(f) = gamma r'(f) where f is inside
  /// its range: the largest relative violation of these (Karush, Kuhn, Tucker).
  [[nodiscard]] double residual() const;

  [[nodiscard]] double clock_ghz() const { return clock_; }
  [[nodiscard]] const std::vector<double>& rates() const { return rates_; }

 private:
  ClockCurves curves_;
  PrimalDualOptions options_;
  std::vector<double> rates_;  ///< y, tokens/s
  double clock_;               ///< f, GHz
  double dual_;                ///< gamma
};

}  // namespace wattle::policy
