// HiGHS behind plan/milp.h, in builds that found it.
#include "plan/milp.h"

#ifdef WATTLE_HIGHS

#include <interfaces/highs_c_api.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace wattle::plan {

/// One model in HiGHS's hands.
class HighsRun {
 public:
  HighsRun(const Milp& program, const MilpOptions& options) : program_(program), options_(options) {
    flag("output_flag", false);
    Highs_setIntOptionValue(model(), "threads", 1);
    real("mip_rel_gap", options.relative_gap);
    if (options.relative_gap == 0.0) real("mip_abs_gap", 0.0);
    if (options.nodes) Highs_setIntOptionValue(model(), "mip_max_nodes", *options.nodes);
    if (options.time) real("time_limit", options.time->seconds());
    if (!options.preprocess) Highs_setStringOptionValue(model(), "presolve", "off");
    load();
  }

  void start_from(std::span<const double> values) {
    Highs_setSolution(model(), values.data(), nullptr, nullptr, nullptr);
  }

  MilpSolution run() {
    Highs_run(model());
    MilpSolution solution;
    std::int64_t nodes = 0;
    if (!options_.relaxed) Highs_getInt64InfoValue(model(), "mip_node_count", &nodes);
    solution.nodes = static_cast<int>(std::max<std::int64_t>(0, nodes));
    const HighsInt status = Highs_getModelStatus(model());
    if (status == kHighsModelStatusInfeasible || status == kHighsModelStatusUnboundedOrInfeasible) {
      solution.status = MilpStatus::Infeasible;
      return solution;
    }
    if (status == kHighsModelStatusUnbounded) {
      solution.status = MilpStatus::Unbounded;
      return solution;
    }
    const bool optimal = status == kHighsModelStatusOptimal || status == kHighsModelStatusModelEmpty;
    HighsInt primal = 0;
    Highs_getIntInfoValue(model(), "primal_solution_status", &primal);
    if (!optimal && (options_.relaxed || primal != kHighsSolutionStatusFeasible)) return solution;
    solution.values.resize(program_.cost_.size());
    std::vector<double> rows(static_cast<std::size_t>(Highs_getNumRow(model())));
    Highs_getSolution(model(), solution.values.data(), nullptr, rows.data(), nullptr);
    for (std::size_t i = 0; i < solution.values.size(); ++i) {
      if (program_.integer_[i] && !options_.relaxed) solution.values[i] = std::round(solution.values[i]);
    }
    solution.cost = program_.cost_of(solution.values);
    solution.bound = solution.cost;
    if (!options_.relaxed && Highs_getDoubleInfoValue(model(), "mip_dual_bound", &solution.bound) == kHighsStatusOk) {
      solution.bound = std::min(solution.bound / scale_, solution.cost);
    }
    solution.status = optimal ? MilpStatus::Optimal : MilpStatus::Feasible;
    return solution;
  }

 private:
  struct Delete {
    void operator()(void* model) const { Highs_destroy(model); }
  };
  [[nodiscard]] void* model() const { return model_.get(); }
  void real(const char* name, double value) { Highs_setDoubleOptionValue(model(), name, value); }
  void flag(const char* name, bool value) { Highs_setBoolOptionValue(model(), name, value ? 1 : 0); }
  [[nodiscard]] std::vector<double> bounds(const std::vector<double>& all) const {
    const double infinity = Highs_getInfinity(model());
    std::vector<double> made = all;
    for (double& one : made) one = std::clamp(one, -infinity, infinity);
    return made;
  }

  void load() {
    Milp whole = program_;
    if (options_.cutoff < kNoLimit) {
      std::vector<Milp::Term> cost;
      for (int i = 0; i < program_.variables(); ++i) cost.push_back({i, program_.cost(i)});
      whole.row(-kNoLimit, options_.cutoff, cost);
    }
    scale_ = whole.cost_scale();
    for (double& cost : whole.cost_) cost *= scale_;
    const Milp::Columns columns = whole.columns();
    std::vector<HighsInt> integer;
    for (const bool one : whole.integer_) integer.push_back(one && !options_.relaxed ? kHighsVarTypeInteger : 0);
    const std::vector<double> low = bounds(whole.low_), high = bounds(whole.high_);
    const std::vector<double> row_low = bounds(whole.row_low_), row_high = bounds(whole.row_high_);
    Highs_passMip(model(), whole.variables(), whole.rows(), static_cast<HighsInt>(columns.rows.size()),
                  kHighsMatrixFormatColwise, kHighsObjSenseMinimize, 0.0, whole.cost_.data(), low.data(), high.data(),
                  row_low.data(), row_high.data(), columns.starts.data(), columns.rows.data(),
                  columns.coefficients.data(), integer.data());
  }

  const Milp& program_;
  const MilpOptions& options_;
  std::unique_ptr<void, Delete> model_{Highs_create()};
  double scale_ = 1.0;
};

bool has_solver(MilpSolver) { return true; }

MilpSolution solve_by_highs(const Milp& program, const MilpOptions& options, std::span<const double> start) {
  HighsRun run(program, options);
  if (!start.empty()) run.start_from(start);
  return run.run();
}

}  // namespace wattle::plan

#else

namespace wattle::plan {

bool has_solver(MilpSolver solver) { return solver == MilpSolver::Cbc; }

MilpSolution solve_by_highs(const Milp&, const MilpOptions&, std::span<const double>) { return {}; }

}  // namespace wattle::plan

#endif
