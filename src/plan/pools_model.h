#pragma once
// The pool planner's integer program for one partition. Internal to plan/pools.cc.
#include <span>
#include <string>
#include <vector>

#include "plan/milp.h"
#include "plan/pools_problem.h"
#include "plan/pools_terms.h"

namespace wattle::plan {

class PoolsModel {
 public:
  struct Group {
    WorkerPool where;  ///< workers and load unset
    int workers = -1;  ///< indices of variables; load is -1 in Published
    int load = -1;
    double usable = 0.0;  ///< mean load that one worker may carry, in its type's units
    double cost = 0.0, load_cost = 0.0;
  };

  /// `shedding` adds a variable per type for unserved demand. The objective is then not the cost but the sum over types
  /// of the unserved share, relative to what the sites could carry of that type at most: all types count alike.
  PoolsModel(const PoolsProblem& problem, const PoolsOptions& options, const JouleWeights& weights,
             std::size_t partition, const PoolsPlan* previous, double alpha, bool shedding);

  [[nodiscard]] Milp& program() { return program_; }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  /// How the program is given to the solver. All three forms have the same plans.
  enum class Form : std::uint8_t {
    Exact,   ///< unchanged
    Totals,  ///< integers only for the sums over sites of each (type, mode); counts at a site may be fractional
    Counts,  ///< counts only, each worker charged as if evenly loaded: simple rows, for which CBC finds points fast
  };
  void put(Form form);
  /// Rounds fractional counts down, then adds workers where they cost least for what they still contribute. Loads and
  /// totals are unchanged. Empty if GPUs run out.
  [[nodiscard]] std::vector<double> round_up(const std::vector<double>& values) const;
  /// Sites with fractional counts in `values`, then others with free GPUs, cheapest workers first, then the rest.
  [[nodiscard]] std::vector<std::size_t> sites_to_mend(const std::vector<double>& values) const;
  /// Fixes the workers of all sites except `free` at `values`; null: unfixes all.
  void hold_sites(const std::vector<double>* values, std::span<const std::size_t> free);
  /// Changes the objective from "shed as little as possible" to "shed that little, at least cost".
  void price_after_shedding(double shares);
  /// Requests/s that count as 1 in loads and capacities of a type: 1, or a very small demand itself.
  [[nodiscard]] double unit(std::size_t type) const { return units_[type]; }
  /// Unserved demand, requests/s.
  [[nodiscard]] double shed(std::size_t type, const std::vector<double>& values) const;
  /// A point built from a plan of the same partition; empty if it does not fit.
  [[nodiscard]] std::vector<double> start_from(const PoolsPlan& plan) const;

  /// What a conflict consists of: one type's demand, or all GPUs of one kind.
  [[nodiscard]] std::size_t constraint_groups() const { return types_.size() + kinds_.size(); }
  [[nodiscard]] bool has_rows(std::size_t group) const;
  void enforce(std::size_t group, bool on);
  [[nodiscard]] std::string describe(std::size_t group, double alpha) const;

 private:
  struct LimitRow {
    int row;
    double gpus;
  };

  [[nodiscard]] double in_units(std::size_t type, double per_s) const;
  [[nodiscard]] double most_workers(std::size_t site, std::size_t mode) const;
  [[nodiscard]] double even_cost(const Group& group) const;
  void free_row(int row) { program_.set_row_bounds(row, -kNoLimit, kNoLimit); }
  void add_workers(const JouleWeights& weights, double alpha);
  void add_group(const JouleWeights& weights, std::size_t site, std::size_t type, std::size_t mode, double alpha);
  void add_totals();
  void add_demand(double alpha, bool shedding);
  void add_kept();
  void add_capacity();
  void add_starts(const JouleWeights& weights, const PoolsPlan* previous);
  [[nodiscard]] bool published() const { return options_.formulation == PoolsFormulation::Published; }

  const PoolsProblem& problem_;
  const PoolsOptions& options_;
  const std::size_t partition_;
  const std::vector<PoolType>& types_;
  const std::vector<std::string>& kinds_;
  Milp program_;
  std::vector<Group> groups_;
  std::vector<std::vector<int>> totals_;                      ///< by type and mode; -1: none
  std::vector<int> total_rows_;                               ///< rows that tie totals to counts
  std::vector<int> demand_rows_, shed_;                       ///< by type
  std::vector<int> capacity_of_totals_, capacity_of_counts_;  ///< rows by type
  std::vector<double> units_;                                 ///< by type; see unit()
  std::vector<double> demand_;                                ///< what the demand rows require, in these units
  std::vector<double> beyond_;  ///< while shedding: unserved demand for which no GPUs are left
  struct KeptRow {
    int row;
    double least;
  };
  std::vector<std::vector<KeptRow>> kept_rows_;       ///< by type: data residency
  std::vector<std::vector<GpuLimit>> limits_;         ///< by site
  std::vector<std::vector<LimitRow>> capacity_rows_;  ///< by kind
  struct Start {
    std::size_t site, mode;
    int variable;
    int had;  ///< workers of the previous plan
  };
  std::vector<Start> starts_;
  std::vector<double> costs_;  ///< of the variables, while the objective is to shed as little as possible
  int shed_row_ = -1;
};

}  // namespace wattle::plan
