#pragma once
// FREESH's slow half as a scaling policy (section 3.1): every half hour, which workers run at which site for which
// class of requests, from forecasts of traffic and emissions, starting from the plan in force.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "managers/learned_reserve.h"
#include "managers/site_series.h"
#include "plan/pools.h"
#include "policy/scaling/scaling.h"
#include "predict/forecast/forecaster.h"

namespace wattle::managers {

struct SitePoolsOptions {
  plan::PoolsOptions planning;
  Span epoch = Span::s(1800);      ///< between two plans; a multiple of `slot`
  Span slot = Span::s(300);        ///< of forecasts and peaks
  double beta = 1.0;               ///< expected peaks are divided by this before planning
  std::size_t least_history = 24;  ///< slots; with fewer, the last value is used as the forecast
  bool replans = true;             ///< false: the first plan stays
  bool out_of_turn = false;        ///< plans again as soon as more arrives than was planned for and is carried (ours)
  /// Use as few sites as carry the demand with the margin, cleanest first, instead of optimising the placement.
  bool cleanest = false;
  bool pooled = false;  ///< any request may go to any worker, whatever class it was planned for
  bool weighs = false;  ///< workers of a pool get routing weights in proportion to their rated capacity
  /// Of all workers' capacity, kept free in addition to planning.alpha; given up first where the sites cannot keep it.
  LearnedReserveOptions reserve;
};

/// What is planned, and how the planner's terms map to the fleet's.
struct SitePoolsSetup {
  /// Kinds, modes, sites with their GPUs, and partitions with their types and ratings. The policy fills in demands and
  /// intensities.
  plan::PoolsProblem problem;
  /// By partition and request class: its type there. A class belongs to one type as a whole, whichever partition is in
  /// force. Empty: the types of the only partition are the classes, in order.
  std::vector<std::vector<std::size_t>> type_of = {};
  /// By class, its ratings: types are rated again for each plan by the mix of classes last seen. Empty: the ratings in
  /// `problem` hold.
  std::vector<plan::PoolType> classes = {};
  /// The fleet's shape of each mode at each site (by site, then mode); none: it cannot be started there.
  std::vector<std::vector<std::optional<std::size_t>>> shapes;
  struct Machine {
    std::size_t site = 0, kind = 0;
    int gpus = 0;
  };
  std::vector<Machine> nodes;     ///< by NodeId: where the sites' GPUs are; empty: sites are never cut off
  SiteSeries::Known intensity;    ///< marginal, g/kWh
  SiteSeries::Known price;        ///< of electricity, USD/kWh
  bool outlook_is_given = false;  ///< both also know the future: a forecast without error
  std::unique_ptr<predict::Forecaster> traffic;    ///< of each class's peak per slot; null: the last value is used
  std::unique_ptr<predict::Forecaster> emissions;  ///< of each site's intensity per slot; null: the last value is used
  std::unique_ptr<predict::Forecaster> prices;     ///< likewise
  std::size_t past_slots = 0;                      ///< of both series, known before the run began, for forecasting
  std::vector<double> may_be_late = {};            ///< by class, for SitePoolsOptions::reserve; empty: none learned
  std::vector<double> demand_at_start;             ///< requests per second by class, before any was seen
  /// Expected peak of each class in every slot from the start on, whatever is observed; after the end, its last value.
  /// By class; empty: forecast by `traffic`.
  std::vector<std::vector<double>> expected = {};
};

/// Asked every few seconds: a slot's peak is the highest rate between two calls in it. Each plan chooses one partition.
/// Each of its types has the pool of its number, to which the classes of that type go; a type without expected requests
/// shares the next larger one's pool. A site whose nodes are down has no GPUs, and the next call plans again without
/// them. If an intensity is unknown, carbon is left out of the objective; if a price is unknown, cost is; the reason
/// says so, and neither is ever taken as zero. Load that a plan does not carry is missing from its weights, relative to
/// the actual load, so it is refused on arrival; from the moment a node goes down until everything planned serves, so
/// is load that the serving workers do not carry. Plan::problem states how much, and why. If the published formulation
/// has no plan, the other one, which sheds, makes it.
class SitePools final : public policy::ScalingPolicy {
 public:
  SitePools(SitePoolsSetup setup, const SitePoolsOptions& options);

  Plan plan(const policy::ScalingView& view) override;

  /// The newest plan in the planner's terms, and the problem that it solves; null before the first.
  [[nodiscard]] const plan::PoolsPlan* newest() const { return plans_ > 0 ? &newest_ : nullptr; }
  [[nodiscard]] const plan::PoolsProblem& problem() const { return setup_.problem; }
  [[nodiscard]] std::int64_t plans() const { return plans_; }

 private:
  void hear(const policy::ScalingView& view);
  void end_slot(Instant at);
  void count_gpus();
  [[nodiscard]] bool sites_changed(const policy::ScalingView& view);
  void make(Instant now);
  [[nodiscard]] std::vector<double> by_type(const policy::ScalingView& view, bool load_is_known) const;
  [[nodiscard]] std::vector<double> by_pool(const std::vector<double>& of_type) const;
  [[nodiscard]] std::size_t pool_of(std::size_t type) const { return static_cast<std::size_t>(pool_of_[type].value()); }
  [[nodiscard]] bool outgrown(const policy::ScalingView& view) const;
  [[nodiscard]] Result<plan::PoolsPlan> planned(const plan::PoolsOptions& planning) const;
  [[nodiscard]] plan::PoolsProblem asked() const;
  /// False if something that the objective needs is unknown: the objective is then without it.
  bool fill_electricity(std::size_t slots, Instant now, plan::PoolsObjective& objective);
  void fill_demand(std::size_t slots);
  void rate_types();
  [[nodiscard]] std::vector<double> by_series(const std::vector<double>& of_class) const;
  [[nodiscard]] std::size_t series_of(std::size_t partition, std::size_t type) const {
    return first_[partition] + type;
  }
  [[nodiscard]] Plan translated();
  [[nodiscard]] bool all_serve(const policy::ScalingView& view) const;
  [[nodiscard]] std::vector<double> carried(const policy::ScalingView& view) const;
  void shed(Plan& plan, const policy::ScalingView& view, bool load_is_known);

  SitePoolsSetup setup_;
  SitePoolsOptions options_;
  SiteSeries grams_, usd_;                  ///< per kWh
  LearnedReserve reserve_;                  ///< all classes share one
  std::vector<bool> up_;                    ///< by node
  std::vector<std::size_t> first_;          ///< by partition: the series of its first type
  std::vector<std::vector<double>> peaks_;  ///< by series (one per type of each partition) and slot
  std::vector<double> rising_;              ///< of the slot in progress, by series
  std::vector<double> of_class_;            ///< requests per second in the last period that had any, by class
  Instant slot_end_;
  Instant next_;
  bool begun_ = false;
  std::size_t slots_ = 0;  ///< number that have ended
  std::int64_t plans_ = 0;
  plan::PoolsPlan newest_;
  std::vector<plan::PoolType> rated_;  ///< the types that `newest_` was made for
  std::vector<PoolId> pool_of_;        ///< by type of the partition in force
  bool filling_ = false;               ///< a node went down, and not everything planned serves since
  Plan current_;
  const char* reason_ = "";
  std::string problem_;
};

}  // namespace wattle::managers
