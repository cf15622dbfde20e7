#include "plan/milp.h"

#include <Cbc_C_Interface.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/check.h"

namespace wattle::plan {

namespace {
/// CBC's own infinity.
constexpr double kCbcInfinity = 1e30;

double for_cbc(double bound) { return std::clamp(bound, -kCbcInfinity, kCbcInfinity); }
}  // namespace

int Milp::variable(double low, double high, double cost, Domain domain) {
  low_.push_back(low);
  high_.push_back(high);
  cost_.push_back(cost);
  integer_.push_back(domain == Domain::Integer);
  return variables() - 1;
}

int Milp::row(double low, double high, std::span<const Term> terms) {
  row_low_.push_back(low);
  row_high_.push_back(high);
  for (const Term& term : terms) {
    WATTLE_CHECK(term.variable >= 0 && term.variable < variables(), "a row names a variable that does not exist");
    row_of_.push_back(rows() - 1);
    variable_of_.push_back(term.variable);
    coefficient_.push_back(term.coefficient);
  }
  return rows() - 1;
}

void Milp::set_bounds(int variable, double low, double high) {
  low_[index(variable)] = low;
  high_[index(variable)] = high;
}

void Milp::set_row_bounds(int row, double low, double high) {
  row_low_[index(row)] = low;
  row_high_[index(row)] = high;
}

double Milp::cost_of(std::span<const double> values) const {
  double sum = 0.0;
  for (std::size_t i = 0; i < cost_.size(); ++i) sum += cost_[i] * values[i];
  return sum;
}

std::vector<double> Milp::activities(std::span<const double> values) const {
  std::vector<double> activity(row_low_.size(), 0.0);
  for (std::size_t k = 0; k < coefficient_.size(); ++k) {
    activity[index(row_of_[k])] += coefficient_[k] * values[index(variable_of_[k])];
  }
  return activity;
}

double Milp::cost_scale() const {
  constexpr int kExponent = 12;
  double largest = 0.0;
  for (const double cost : cost_) largest = std::max(largest, std::abs(cost));
  return largest > 0.0 ? std::ldexp(1.0, kExponent - std::ilogb(largest)) : 1.0;
}

Milp::Columns Milp::columns() const {
  std::vector<std::vector<std::pair<int, double>>> columns(cost_.size());
  for (std::size_t k = 0; k < coefficient_.size(); ++k) {
    auto& column = columns[index(variable_of_[k])];
    const int row = row_of_[k];  // rows come in ascending order
    if (!column.empty() && column.back().first == row) {
      column.back().second += coefficient_[k];
    } else {
      column.emplace_back(row, coefficient_[k]);
    }
  }
  Columns made;
  made.starts.push_back(0);
  for (const auto& column : columns) {
    for (const auto& [row, coefficient] : column) {
      made.rows.push_back(row);
      made.coefficients.push_back(coefficient);
    }
    made.starts.push_back(static_cast<int>(made.rows.size()));
  }
  return made;
}

bool Milp::open_ended() const {
  for (std::size_t i = 0; i < cost_.size(); ++i) {
    if ((cost_[i] < 0.0 && high_[i] >= kCbcInfinity) || (cost_[i] > 0.0 && low_[i] <= -kCbcInfinity)) return true;
  }
  return false;
}

double Milp::violation(std::span<const double> values) const {
  double worst = 0.0;
  for (std::size_t i = 0; i < cost_.size(); ++i) {
    worst = std::max({worst, low_[i] - values[i], values[i] - high_[i]});
    if (integer_[i]) worst = std::max(worst, std::abs(values[i] - std::round(values[i])));
  }
  const std::vector<double> activity = activities(values);
  for (std::size_t i = 0; i < activity.size(); ++i) {
    worst = std::max({worst, row_low_[i] - activity[i], activity[i] - row_high_[i]});
  }
  return worst;
}

std::string_view milp_status_name(MilpStatus status) {
  switch (status) {
    case MilpStatus::Optimal:
      return "optimal";
    case MilpStatus::Feasible:
      return "feasible";
    case MilpStatus::Infeasible:
      return "infeasible";
    case MilpStatus::Unbounded:
      return "unbounded";
    case MilpStatus::Unsolved:
      return "unsolved";
  }
  return "unsolved";
}

/// One model in CBC's hands.
class CbcRun {
 public:
  CbcRun(const Milp& program, const MilpOptions& options) : program_(program), options_(options) {
    Cbc_setLogLevel(model(), 0);
    load();
  }

  void start_from(std::span<const double> values) {
    std::vector<int> indices(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) indices[i] = static_cast<int>(i);
    Cbc_setMIPStartI(model(), static_cast<int>(values.size()), indices.data(), values.data());
  }

  MilpSolution run() {
    set("ratioGap", fmt::format("{:.17g}", options_.relative_gap));
    if (options_.nodes) set("maxNodes", fmt::format("{}", *options_.nodes));
    if (options_.cutoff < kNoLimit) set("cutoff", fmt::format("{:.17g}", options_.cutoff * scale_));
    if (!options_.preprocess) set("preprocess", "off");
    if (options_.time) set("seconds", fmt::format("{:.9f}", options_.time->seconds()));
    if (options_.plain_pricing) set("primalPivot", "dantzig");
    Cbc_solve(model());
    return answer();
  }

 private:
  struct Delete {
    void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
  };

  [[nodiscard]] Cbc_Model* model() const { return model_.get(); }
  void set(const char* name, const std::string& value) { Cbc_setParameter(model(), name, value.c_str()); }

  void load() {
    scale_ = program_.cost_scale();
    std::vector<double> cost, low, high, row_low, row_high;
    for (const double v : program_.cost_) cost.push_back(v * scale_);
    for (const double v : program_.low_) low.push_back(for_cbc(v));
    for (const double v : program_.high_) high.push_back(for_cbc(v));
    for (const double v : program_.row_low_) row_low.push_back(for_cbc(v));
    for (const double v : program_.row_high_) row_high.push_back(for_cbc(v));
    const Milp::Columns by_column = program_.columns();
    const std::vector<CoinBigIndex> starts(by_column.starts.begin(), by_column.starts.end());
    Cbc_loadProblem(model(), program_.variables(), program_.rows(), starts.data(), by_column.rows.data(),
                    by_column.coefficients.data(), low.data(), high.data(), cost.data(), row_low.data(),
                    row_high.data());
    if (options_.relaxed) return;
    for (int i = 0; i < program_.variables(); ++i) {
      if (program_.integer_[Milp::index(i)]) Cbc_setInteger(model(), i);
    }
  }

  [[nodiscard]] MilpSolution answer() const {
    MilpSolution solution;
    solution.nodes = Cbc_getNodeCount(model());
    if (Cbc_isProvenInfeasible(model()) != 0) {
      solution.status = MilpStatus::Infeasible;
      return solution;
    }
    if (Cbc_isContinuousUnbounded(model()) != 0) {
      solution.status = MilpStatus::Unbounded;
      return solution;
    }
    const bool optimal = Cbc_isProvenOptimal(model()) != 0;
    solution.bound = Cbc_getBestPossibleObjValue(model()) / scale_;
    if (!optimal && (options_.relaxed || std::abs(Cbc_getObjValue(model())) >= kCbcInfinity)) return solution;
    const double* values = Cbc_getColSolution(model());
    solution.values.assign(values, values + program_.variables());
    for (std::size_t i = 0; i < solution.values.size(); ++i) {
      if (program_.integer_[i] && !options_.relaxed) solution.values[i] = std::round(solution.values[i]);
    }
    solution.cost = program_.cost_of(solution.values);
    if (options_.relaxed) solution.bound = solution.cost;
    solution.bound = std::min(solution.bound, solution.cost);
    solution.status = optimal ? MilpStatus::Optimal : MilpStatus::Feasible;
    return solution;
  }

  const Milp& program_;
  const MilpOptions& options_;
  std::unique_ptr<Cbc_Model, Delete> model_{Cbc_newModel()};
  double scale_ = 1.0;
};

namespace {

MilpSolution solve_once(const Milp& program, const MilpOptions& options, std::span<const double> start) {
  if (options.solver == MilpSolver::Highs) return solve_by_highs(program, options, start);
  CbcRun run(program, options);
  if (!start.empty()) run.start_from(start);
  return run.run();
}

}  // namespace

MilpSolution solve(const Milp& program, const MilpOptions& options, std::span<const double> start) {
  WATTLE_CHECK(start.empty() || start.size() == static_cast<std::size_t>(program.variables()),
               "a start needs one value per variable");
  constexpr double kTolerance = 1e-6;
  const bool starts = !start.empty() && !options.relaxed && program.violation(start) <= kTolerance;
  MilpSolution solution = solve_once(program, options, starts ? start : std::span<const double>());
  // Preprocessing tells "infeasible or unbounded" as infeasible; without costs nothing is unbounded.
  if (solution.status == MilpStatus::Infeasible && program.open_ended() && options.cutoff == kNoLimit) {
    Milp costless = program;
    std::ranges::fill(costless.cost_, 0.0);
    if (solve_once(costless, options, {}).found()) solution.status = MilpStatus::Unbounded;
  }
  return solution;
}

}  // namespace wattle::plan
