#include "plan/milp.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace wattle::plan {

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
  constexpr double kNoBound = 1e30;  // solvers take this for none
  for (std::size_t i = 0; i < cost_.size(); ++i) {
    if ((cost_[i] < 0.0 && high_[i] >= kNoBound) || (cost_[i] > 0.0 && low_[i] <= -kNoBound)) return true;
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

namespace {

MilpSolution solve_once(const Milp& program, const MilpOptions& options, std::span<const double> start) {
  return options.solver == MilpSolver::Highs ? solve_by_highs(program, options, start)
                                             : solve_by_cbc(program, options, start);
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
