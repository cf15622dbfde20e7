#pragma once
// The controller that MIAD approximates (FREESH, section 3.2 and appendix B.1): maximise the users' utilities less the
// price of power,
//   max over y, f of  sum_i w_i log y_i - beta P(f),  sum_i y_i <= r(f),
// by gradient steps on the Lagrangian, y += k (U' - gamma), f += k (gamma r' - beta P'), gamma += k (sum y - r), each
// clamped to its range. primal_dual_clock.h makes it a policy.
#include <span>
#include <vector>

namespace wattle::policy {

/// Power and rate of an instance as functions of its clock, smooth enough for central differences over `step_ghz`.
class ClockCurves {
 public:
  virtual ~ClockCurves() = default;
  [[nodiscard]] virtual double power_w(double ghz) const = 0;
  [[nodiscard]] virtual double rate_per_s(double ghz) const = 0;  ///< tokens/s it can produce

  double lowest_ghz = 0.21;
  double highest_ghz = 1.41;
  double step_ghz = 0.005;
};

/// `count` users with the same utility, each of its own rate.
struct Flow {
  double count = 1.0;
  double weight = 1.0;     ///< w, > 0
  double least_per_s = 0;  ///< lower bound of its rate, from its latency limit
};

class PrimalDual {
 public:
  /// `price`: beta, utility per watt. `gain`: k, relative to the size of each variable, in (0, 1). Starts at
  /// `clock_ghz`.
  PrimalDual(double price, double gain, double clock_ghz) : price_(price), gain_(gain), clock_(clock_ghz) {}

  /// One iteration of y, f and gamma. If the sum of the lower bounds exceeds the rate at the highest clock, gamma is
  /// limited to a multiple of what moves the clock there. Flows with count 0 are ignored; at least one has a higher
  /// count.
  void step(const ClockCurves& curves, std::span<const Flow> flows);
  /// The largest relative violation of the Karush-Kuhn-Tucker conditions: y_i = max(w_i / gamma, least_i), sum y =
  /// r(f), and beta P'(f) = gamma r'(f) if f is inside its range.
  [[nodiscard]] double residual(const ClockCurves& curves, std::span<const Flow> flows) const;

  [[nodiscard]] double clock_ghz() const { return clock_; }
  void set_clock(double ghz) { clock_ = ghz; }
  /// y of one user, by flow, tokens/s.
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
  double dual_ = 0.0;          ///< gamma; 0: before the first iteration
};

}  // namespace wattle::policy
