#pragma once
// Input and output of FREESH's pool planner (section 3.1, equation 1).
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/milp.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::plan {

/// How a worker is built: GPUs by kind (index into PoolsProblem::kinds). A P/D pair may use two kinds.
struct WorkerMode {
  std::string name;
  std::vector<int> gpus;
  /// If a worker has several engines, such as a pair: GPUs by kind of each, which are on one node; they sum to `gpus`.
  /// Empty: all GPUs of a kind are on one node.
  std::vector<std::vector<int>> engines = {};
  /// Calls visit(n) for each group of n of its GPUs of the kind that must be on one node.
  template <typename Visit>
  void each_block(std::size_t kind, Visit&& visit) const {
    if (engines.empty()) visit(gpus[kind]);
    for (const auto& engine : engines) visit(engine[kind]);
  }
};

/// What one worker of a mode does for one type of request, measured at the highest clock.
struct WorkerRating {
  Watts peak;               ///< the whole worker at max_per_s
  Watts idle;               ///< the whole worker, model loaded, no request
  double max_per_s = 0.0;   ///< requests per second it sustains; 0: it cannot serve this type
  Span ttft = Span::ns(0);  ///< mean at max_per_s
  Span tbt = Span::ns(0);   ///< mean at max_per_s
  bool operator==(const WorkerRating&) const = default;
};

/// A share of a type's requests that may be computed only at these sites.
struct KeptShare {
  std::vector<bool> sites;  ///< by site
  double share = 0.0;       ///< of the type's demand, in every slot
};

struct PoolType {
  std::string name;
  Span ttft_limit = Span::max();
  Span tbt_limit = Span::max();
  std::vector<double> demand_per_s;                  ///< requests per second, one value per slot of the window
  std::vector<std::optional<WorkerRating>> ratings;  ///< by mode; none: not measured, not used
  std::vector<KeptShare> kept = {};                  ///< data residency; at most kMostKept, their shares at most 1
  static constexpr std::size_t kMostKept = 8;
  static constexpr double kMostPerSecond = 1e9;  ///< of its demand: beyond, solvers lose sight of a single worker
};

/// A union of some of a type's kept shares: what the sites of any of them must carry. All such unions together are
/// necessary and sufficient for every request to have a place (Hall's condition).
struct KeptUnion {
  std::vector<bool> sites;
  double share = 0.0;
};
[[nodiscard]] std::vector<KeptUnion> kept_unions(const PoolType& type);

/// One way to divide requests into types; a plan uses exactly one.
struct RequestPartition {
  std::string name;
  std::vector<PoolType> types;
};

struct PoolSite {
  std::string name;
  std::vector<int> gpus;                     ///< free for this plan, by kind
  std::vector<GramsPerKwh> intensity;        ///< per slot; marginal intensities may be negative
  std::vector<double> price_usd_per_kwh;     ///< per slot; empty: unknown
  std::vector<std::vector<int>> nodes = {};  ///< by kind: GPUs of each machine; a worker's are on one; none: on any
  std::vector<bool> modes = {};              ///< by mode: whether workers of it can be started there; empty: all
  [[nodiscard]] bool has_mode(std::size_t mode) const { return modes.empty() || modes[mode]; }
};

struct PoolsProblem {
  std::vector<std::string> kinds;
  std::vector<WorkerMode> modes;
  std::vector<PoolSite> sites;
  std::vector<RequestPartition> partitions;
  Span slot = Span::s(300);  ///< length of one slot; the window has as many slots as every series has values
};

enum class PoolsFormulation : std::uint8_t {
  /// As released: each worker draws its peak power whatever its load, negative intensity rewards any worker, windows
  /// are independent, and an infeasible window has no plan.
  Published,
  /// Power follows load, idle workers earn nothing, starting a worker costs energy, infeasible windows are relaxed in
  /// steps.
  Wattle,
};

/// What is minimised. With one weight above zero, the objective has its unit (g, J, USD). With several, each term is
/// relative to its mean magnitude over sites and slots, so that the weights are shares.
struct PoolsObjective {
  double carbon = 1.0;
  double energy = 0.0;
  double cost = 0.0;
};

struct PoolsOptions {
  PoolsFormulation formulation = PoolsFormulation::Wattle;
  PoolsObjective objective;
  double alpha = 1.1;  ///< capacity as a multiple of peak demand (at least 1)
  /// Wattle: a worker that the previous plan did not have draws idle power for this long before it serves.
  Span start_time = Span::s(60);
  MilpSolver solver = MilpSolver::Cbc;  ///< one that this build contains
  double relative_gap = 1e-6;           ///< of the integer programs
  std::optional<int> nodes = std::nullopt;
  std::optional<Span> time = std::nullopt;  ///< CPU time per integer program; makes the result machine-dependent
};

struct WorkerPool {
  std::size_t site = 0, type = 0, mode = 0;
  int workers = 0;
  double load_per_s = 0.0;  ///< mean over the window, over all these workers
  bool operator==(const WorkerPool&) const = default;
};

enum class PoolsStatus : std::uint8_t {
  Planned,     ///< all demand, with the requested margin
  Relaxed,     ///< all demand, with a margin of 1.0
  Shed,        ///< as much of each type's demand as the sites can carry, all types alike (see PoolsModel)
  Infeasible,  ///< no plan (Published only)
  Unsolved,    ///< a limit of the solver was reached before a plan was found
};

struct PoolsPlan {
  PoolsStatus status = PoolsStatus::Unsolved;
  std::string reason;              ///< one line for people
  std::size_t partition = 0;       ///< index into PoolsProblem::partitions
  std::vector<WorkerPool> pools;   ///< those with workers, ordered by site, type, mode
  double objective = 0.0;          ///< unit: see PoolsObjective
  double bound = 0.0;              ///< lower bound on the objective of plans with this status
  double alpha = 0.0;              ///< the margin this plan keeps
  std::vector<double> shed_per_s;  ///< by type: mean unserved demand over the window
  std::vector<std::string>
      binding;    ///< constraints that together make the requested `alpha` infeasible; lifting any one of them suffices
  Joules energy;  ///< expected over the window; Published: at peak power
  GramsCo2 carbon;  ///< expected; negative intensity counts in full, unlike in the objective
  Usd cost;         ///< expected; 0 without prices
  int started = 0;  ///< workers that the previous plan did not have
  int nodes = 0;    ///< branch-and-bound nodes
  [[nodiscard]] bool found() const { return status <= PoolsStatus::Shed; }
};

}  // namespace wattle::plan
