#pragma once
// Mixed-integer linear programs, solved by CBC or HiGHS. The only interface to the solvers.
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "units/time.h"

namespace wattle::plan {

struct MilpOptions;
struct MilpSolution;

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

enum class Domain : std::uint8_t { Continuous, Integer };

/// min cost·x subject to low <= A x <= high and bounds on x, with some of x integer. Built column by column and row by
/// row; indices count from 0 in the order of the calls.
class Milp {
 public:
  struct Term {
    int variable;
    double coefficient;
  };

  /// Bounds may be -kNoLimit or kNoLimit.
  int variable(double low, double high, double cost, Domain domain = Domain::Continuous);
  /// low <= sum of terms <= high. A variable may occur several times: its coefficients are summed.
  int row(double low, double high, std::span<const Term> terms);
  int row(double low, double high, std::initializer_list<Term> terms) {
    return row(low, high, std::span(terms.begin(), terms.size()));
  }

  void set_bounds(int variable, double low, double high);
  void set_row_bounds(int row, double low, double high);
  void set_cost(int variable, double cost) { cost_[index(variable)] = cost; }
  [[nodiscard]] double cost(int variable) const { return cost_[index(variable)]; }
  void set_domain(int variable, Domain domain) { integer_[index(variable)] = domain == Domain::Integer; }

  [[nodiscard]] int variables() const { return static_cast<int>(cost_.size()); }
  [[nodiscard]] int rows() const { return static_cast<int>(row_low_.size()); }
  [[nodiscard]] double cost_of(std::span<const double> values) const;
  /// The largest violation of a bound, a row or integrality by `values`; 0: feasible.
  [[nodiscard]] double violation(std::span<const double> values) const;

 private:
  friend class CbcRun;
  friend class HighsRun;
  /// The matrix by columns, with the coefficients of each cell summed.
  struct Columns {
    std::vector<int> starts, rows;
    std::vector<double> coefficients;
  };
  [[nodiscard]] Columns columns() const;
  /// Solvers' tolerances are absolute. Costs are multiplied by this power of two (so nothing is rounded) to be at most
  /// 4,096.
  [[nodiscard]] double cost_scale() const;
  friend MilpSolution solve(const Milp&, const MilpOptions&, std::span<const double>);
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  /// Whether the cost can fall without limit along one variable's bounds.
  [[nodiscard]] bool open_ended() const;
  [[nodiscard]] std::vector<double> activities(std::span<const double> values) const;

  std::vector<double> low_, high_, cost_;
  std::vector<bool> integer_;
  std::vector<double> row_low_, row_high_;
  std::vector<int> row_of_, variable_of_;  ///< the matrix as triplets
  std::vector<double> coefficient_;
};

enum class MilpSolver : std::uint8_t { Cbc, Highs };
/// HiGHS only if CMake found it.
[[nodiscard]] bool has_solver(MilpSolver solver);

struct MilpOptions {
  MilpSolver solver = MilpSolver::Cbc;  ///< one that this build contains
  /// Stop when (cost - bound) <= this share of |cost|. 0 proves the optimum.
  double relative_gap = 0.0;
  /// Limit on branch-and-bound nodes: the result is the same on every machine.
  std::optional<int> nodes = std::nullopt;
  /// Limit on CPU time, for live use: the result depends on the machine.
  std::optional<Span> time = std::nullopt;
  /// Only cheaper points are wanted: Infeasible then means that there are none.
  double cutoff = kNoLimit;
  /// Solve the linear relaxation: every variable continuous.
  bool relaxed = false;
  /// CBC may reduce the program first. Turn it off where it gains little: on rows that are tight by construction,
  /// undoing the reduction has aborted in Clp (bounds crossed by less than its tolerance).
  bool preprocess = true;
  /// Search with cuts and starting heuristics (CBC). They cost more than they bring on programs of some dozen
  /// variables: one pool of DynamoLLM takes 2.4 times as long.
  bool cuts = true;
  /// CLP prices by Dantzig's rule. Its steepest-edge rule aborts the process (an assertion of ClpPrimalColumnSteepest)
  /// on some degenerate programs, such as pools of classes with hardly any load.
  bool plain_pricing = false;
};

enum class MilpStatus : std::uint8_t {
  Optimal,     ///< proven, within relative_gap
  Feasible,    ///< a limit was reached; the best found so far
  Infeasible,  ///< proven: no point satisfies all rows
  Unbounded,   ///< the cost falls without limit
  Unsolved,    ///< a limit was reached before any feasible point was found
};
[[nodiscard]] std::string_view milp_status_name(MilpStatus status);

struct MilpSolution {
  MilpStatus status = MilpStatus::Unsolved;
  double cost = 0.0;           ///< of `values`
  double bound = -kNoLimit;    ///< lower bound on the cost of all feasible points
  std::vector<double> values;  ///< integers are exact; empty without a feasible point
  int nodes = 0;
  [[nodiscard]] bool found() const { return status == MilpStatus::Optimal || status == MilpStatus::Feasible; }
};

/// Solves by branch and cut, in one thread, without output, with the same answer each time (unless `options.time` stops
/// it). `start`: an initial point; if it is feasible, the answer costs no more. Empty: none.
[[nodiscard]] MilpSolution solve(const Milp& program, const MilpOptions& options = {},
                                 std::span<const double> start = {});

/// Called by solve() only.
[[nodiscard]] MilpSolution solve_by_cbc(const Milp& program, const MilpOptions& options, std::span<const double> start);

/// Called by solve() only. Unsolved in a build without HiGHS. HiGHS has no plain_pricing, and respects `nodes` as
/// closely as its heuristics permit.
[[nodiscard]] MilpSolution solve_by_highs(const Milp& program, const MilpOptions& options,
                                          std::span<const double> start);

}  // namespace wattle::plan
