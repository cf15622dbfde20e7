#pragma once
// The controller that MIAD approximates (FREESH, section 3.2 and appendix B.1): maximise the users' utilities less the
// power's price,
//   max over y, f of  sum_i w_i log y_i - beta P(f),  sum_i y_i <= r(f),
// by gradient steps on the Lagrangian, y += k (U' - gamma), f += k (gamma r' - beta P'), gamma += k (sum y - r), each
// kept in its range. primal_dual_clock.h makes it a policy.
#include <algorithm>
#include <span>
#include <vector>

namespace wattle::policy {

/// Power and rate of an instance against its clock; smooth enough for central differences over `step_ghz`.
class ClockCurves {
 public:
  virtual ~ClockCurves() = default;
  [[nodiscard]] virtual double power_w(double ghz) const = 0;
  [[nodiscard]] virtual double rate_per_s(double ghz) const = 0;  ///< tokens/s it can produce

  double lowest_ghz = 0.21;
  double highest_ghz = 1.41;
  double step_ghz = 0.005;
};

/// Users alike: each has this utility of its own rate.
struct Flow {
  double count = 1.0;
  double weight = 1.0;     ///< w, > 0
  double least_per_s = 0;  ///< what its limit of latency asks for; its rate is kept at least there
};

class PrimalDual {
 public:
  /// `price`: beta, utility per watt. `gain`: k, as a share of each variable's own size, in (0, 1). Begins at
  /// `clock_ghz`.
  PrimalDual(double price, double gain, double clock_ghz) : price_(price), gain_(gain), clock_(clock_ghz) {}

  /// One iteration of all three. Where least rates are more than the highest clock gives, gamma stays within a multiple
  /// of what moves the clock there. Flows of count 0 are nobody; at least one is somebody.
  void step(const ClockCurves& curves, std::span<const Flow> flows);
  /// At the optimum y_i = max(w_i / gamma, least_i), sum y = r(f), and beta P'(f) = gamma r'(f) where f is inside its
  /// range: the largest relative violation of these (Karush, Kuhn, Tucker).
  [[nodiscard]] double residual(const ClockCurves& curves, std::span<const Flow> flows) const;

  [[nodiscard]] double clock_ghz() const { return clock_; }
  void set_clock(double ghz) { clock_ = ghz; }
  /// y of one user of each flow, tokens/s.
  [[nodiscard]] const std::vector<double>& rates() const { return rates_; }

 private:
  /// gamma r' and beta P' at the clock.
  struct Balance {
    double gain = 0.0;
    double cost = 0.0;
  };
  [[nodiscard]] Balance balance(const ClockCurves& curves) const;

  double price_;
  double gain_;
  std::vector<double> rates_;  ///< y
  double clock_;               ///< f, GHz
  double dual_ = 0.0;          ///< gamma; 0: not begun
};

}  // namespace wattle::policy
