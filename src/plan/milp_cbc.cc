// CBC behind plan/milp.h, by its C++ classes: its C interface and its command line keep what they read in variables of
// the process, so that two programs solved at once disturb each other.
#include <CbcHeuristicFPump.hpp>
#include <CbcHeuristicRENS.hpp>
#include <CbcModel.hpp>
#include <CglMixedIntegerRounding2.hpp>
#include <CglPreProcess.hpp>
#include <CglProbing.hpp>
#include <CglTwomir.hpp>
#include <ClpPrimalColumnDantzig.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/milp.h"

namespace wattle::plan {

/// One model in CBC's hands.
class CbcRun {
 public:
  CbcRun(const Milp& program, const MilpOptions& options) : program_(program), options_(options) {
    solver_.messageHandler()->setLogLevel(0);
    solver_.getModelPtr()->setLogLevel(0);
    if (options.plain_pricing) {
      ClpPrimalColumnDantzig dantzig;
      solver_.getModelPtr()->setPrimalColumnPivotAlgorithm(dantzig);
    }
    load();
  }

  MilpSolution run(std::span<const double> start) {
    if (options_.relaxed) return relaxation();
    CglPreProcess process;
    OsiSolverInterface* reduced = &solver_;
    if (preprocesses()) {
      process.messageHandler()->setLogLevel(0);
      reduced = process.preProcess(solver_);
      if (reduced == nullptr) return MilpSolution{.status = MilpStatus::Infeasible, .values = {}};
      reduced->resolve();
    }
    CbcModel model(*reduced);
    limit(model);
    if (options_.cuts) search_by(model);
    model.initialSolve();
    if (!start.empty()) begin_at(model, process, start);
    model.branchAndBound();
    MilpSolution solution = outcome(model);
    if (!solution.found()) return solution;
    const double* values = model.bestSolution();
    if (preprocesses()) {
      process.postProcess(*model.solver());
      values = solver_.getColSolution();
    }
    take(solution, values);
    return solution;
  }

 private:
  void load() {
    scale_ = program_.cost_scale();
    std::vector<double> cost;
    for (const double v : program_.cost_) cost.push_back(v * scale_);
    const Milp::Columns by_column = program_.columns();
    const std::vector<CoinBigIndex> starts(by_column.starts.begin(), by_column.starts.end());
    const auto bounds = [this](const std::vector<double>& all) {
      const double infinity = solver_.getInfinity();
      std::vector<double> made = all;
      for (double& one : made) one = std::clamp(one, -infinity, infinity);
      return made;
    };
    solver_.loadProblem(program_.variables(), program_.rows(), starts.data(), by_column.rows.data(),
                        by_column.coefficients.data(), bounds(program_.low_).data(), bounds(program_.high_).data(),
                        cost.data(), bounds(program_.row_low_).data(), bounds(program_.row_high_).data());
    leave_out_free_rows();
    if (options_.relaxed) return;
    for (int i = 0; i < program_.variables(); ++i) {
      if (program_.integer_[Milp::index(i)]) solver_.setInteger(i);
    }
  }

  /// Rows without bounds say nothing, but CglMixedIntegerRounding2 takes them for bounded above by 0: its cuts then
  /// leave out the best points of a program that was not preprocessed.
  void leave_out_free_rows() {
    std::vector<int> free;
    for (int row = 0; row < program_.rows(); ++row) {
      const std::size_t i = Milp::index(row);
      if (program_.row_low_[i] == -kNoLimit && program_.row_high_[i] == kNoLimit) free.push_back(row);
    }
    if (!free.empty()) solver_.deleteRows(static_cast<int>(free.size()), free.data());
  }

  /// CglPreProcess ends the process on a program without rows or variables.
  [[nodiscard]] bool preprocesses() const {
    return options_.preprocess && solver_.getNumRows() > 0 && program_.variables() > 0;
  }

  MilpSolution relaxation() {
    MilpSolution solution;
    solver_.initialSolve();
    if (solver_.isProvenPrimalInfeasible()) solution.status = MilpStatus::Infeasible;
    if (solver_.isProvenDualInfeasible()) solution.status = MilpStatus::Unbounded;
    if (!solver_.isProvenOptimal()) return solution;
    solution.status = MilpStatus::Optimal;
    take(solution, solver_.getColSolution());
    solution.bound = solution.cost;
    return solution;
  }

  void limit(CbcModel& model) const {
    model.setLogLevel(0);
    model.setAllowableFractionGap(options_.relative_gap);
    if (options_.nodes) model.setMaximumNodes(*options_.nodes);
    if (options_.time) model.setMaximumSeconds(options_.time->seconds());
    if (options_.cutoff < kNoLimit) model.setCutoff(options_.cutoff * scale_);
  }

  /// Of CBC's many cuts and heuristics the few that pay on our programs.
  static void search_by(CbcModel& model) {
    CglProbing probing;
    probing.setUsingObjective(1);
    CglMixedIntegerRounding2 rounding;
    CglTwomir two_rows;
    constexpr int kWhereItHelps = -98, kAtTheRoot = -99;
    model.addCutGenerator(&probing, kWhereItHelps, "Probing");
    model.addCutGenerator(&rounding, kWhereItHelps, "MixedIntegerRounding2");
    model.addCutGenerator(&two_rows, kAtTheRoot, "TwoMir");
    CbcHeuristicRENS fixing(model);
    CbcHeuristicFPump pump(model);
    CbcRounding nearest(model);
    model.addHeuristic(&fixing);
    model.addHeuristic(&pump);
    model.addHeuristic(&nearest);
  }

  void begin_at(CbcModel& model, CglPreProcess& process, std::span<const double> start) const {
    const int columns = model.getNumCols();
    std::vector<double> values(start.begin(), start.end());
    if (preprocesses()) {
      const int* original = process.originalColumns();
      values.resize(static_cast<std::size_t>(columns));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = start[static_cast<std::size_t>(original[i])];
    }
    model.setBestSolution(values.data(), columns, COIN_DBL_MAX, true);
  }

  [[nodiscard]] MilpSolution outcome(const CbcModel& model) const {
    MilpSolution solution;
    solution.nodes = model.getNodeCount();
    if (model.isProvenInfeasible()) {
      solution.status = MilpStatus::Infeasible;
    } else if (model.isContinuousUnbounded()) {
      solution.status = MilpStatus::Unbounded;
    } else {
      solution.bound = model.getBestPossibleObjValue() / scale_;
      if (model.bestSolution() != nullptr) {
        solution.status = model.isProvenOptimal() ? MilpStatus::Optimal : MilpStatus::Feasible;
      }
    }
    return solution;
  }

  void take(MilpSolution& solution, const double* values) const {
    solution.values.assign(values, values + program_.variables());
    for (std::size_t i = 0; i < solution.values.size(); ++i) {
      if (program_.integer_[i] && !options_.relaxed) solution.values[i] = std::round(solution.values[i]);
    }
    solution.cost = program_.cost_of(solution.values);
    solution.bound = std::min(solution.bound, solution.cost);
  }

  const Milp& program_;
  const MilpOptions& options_;
  OsiClpSolverInterface solver_;
  double scale_ = 1.0;
};

MilpSolution solve_by_cbc(const Milp& program, const MilpOptions& options, std::span<const double> start) {
  return CbcRun(program, options).run(start);
}

}  // namespace wattle::plan
