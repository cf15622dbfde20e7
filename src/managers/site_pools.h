#pragma once
// FREESH's slow half as a scaling policy (section 3.1): every half hour, which workers run at which site for which
// class of requests, from forecasts of traffic and emissions, with the plan in force as its start.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "managers/site_series.h"
#include "plan/pools.h"
#include "policy/scaling/scaling.h"
#include "predict/forecast/forecaster.h"

namespace wattle::managers {

struct SitePoolsOptions {
  plan::PoolsOptions planning;
  Span epoch = Span::s(1800);      ///< between two plans; whole slots
  Span slot = Span::s(300);        ///< of forecasts
  double beta = 1.0;               ///< peaks are divided by this before they are planned for
  std::size_t least_history = 24;  ///< slots; with fewer the last ones are carried on
  bool replans = true;             ///< else the first plan stays
  bool out_of_turn = false;        ///< planned again as soon as more comes than was planned for and is carried (ours)
  /// Instead of where it is best: the cleanest sites that can carry the demand with the margin, as few as do.
  bool cleanest = false;
  bool pooled = false;  ///< any request goes to any worker, whatever class that was planned for
  bool weighs = false;  ///< workers of a pool get turns by what they carry as they are rated
};

/// What is planned over, and how the planner's nouns are the fleet's.
struct SitePoolsSetup {
  /// Kinds, modes, sites with their GPUs and partitions with their types, ratings among them. Demands and intensities
  /// are the policy's to fill in.
  plan::PoolsProblem problem;
  /// By partition and request class: its type there. Each class is of one type whole, whichever partition is in force.
  /// Empty: the types of the only partition are the classes in order.
  std::vector<std::vector<std::size_t>> type_of = {};
  /// By class, what workers carry of it: types are rated again for every plan by the mix of classes last seen. Empty:
  /// the ratings of `problem` stand.
  std::vector<plan::PoolType> classes = {};
  /// The fleet's shape of a mode at a site; none: it cannot be started there. By site, then mode.
  std::vector<std::vector<std::optional<std::size_t>>> shapes;
  struct Machine {
    std::size_t site = 0, kind = 0;
    int gpus = 0;
  };
  std::vector<Machine> nodes;                    ///< by NodeId: where the sites' GPUs are; empty: sites are not cut off
  SiteSeries::Known intensity;                   ///< marginal, g/kWh
  SiteSeries::Known price;                       ///< of electricity, USD/kWh
  bool outlook_is_given = false;                 ///< both know what is to come, too: a forecast without error
  std::unique_ptr<predict::Forecaster> traffic;  ///< of each class's peak per slot; null: the last is carried on
  std::unique_ptr<predict::Forecaster> emissions;  ///< of each site's intensity per slot; null: likewise
  std::unique_ptr<predict::Forecaster> prices;     ///< likewise
  std::size_t past_slots = 0;                      ///< of both, as known before the run began, to forecast from
  std::vector<double> demand_at_start;             ///< requests per second by class, before anything was seen
  /// What is expected of each class's peak in every slot from the start on, whatever is seen; then its last value. By
  /// class; empty: `traffic`.
  std::vector<std::vector<double>> expected = {};
};

/// Asked every few seconds: a slot's peak is the highest rate between two calls in it. Each plan chooses one of the
/// partitions; each of its types has a pool of its number, to which the classes of that type go; a type that nobody is
/// expected of shares the next larger one's. A site whose nodes are down has no GPUs:
/// the next call plans again without them. Where an intensity is unknown carbon is left out of the objective, where a
/// price is unknown cost is, and the reason says so; neither is ever taken for zero. What a plan does not carry its
/// weights lack, so that it is refused as it comes, by the load there is; likewise, from the moment a node goes down
/// until all that is planned serves, what those that serve do not carry. Plan::problem says how much, and why. What
/// has no plan in the published formulation is planned by the other one, which sheds.
class SitePools final : public policy::ScalingPolicy {
 public:
  SitePools(SitePoolsSetup setup, const SitePoolsOptions& options);

  Plan plan(const policy::ScalingView& view) override;

  /// The newest plan as the planner has it, and what it was made for; null before the first.
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
  /// False where something that the objective needs is unknown: then without it.
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
  std::vector<bool> up_;                    ///< by node
  std::vector<std::size_t> first_;          ///< by partition: the series of its first type
  std::vector<std::vector<double>> peaks_;  ///< by series, one of each type of each partition, and slot
  std::vector<double> rising_;              ///< of the present slot, by series
  std::vector<double> of_class_;            ///< requests per second in the last period with any, by class
  Instant slot_end_;
  Instant next_;
  bool begun_ = false;
  std::size_t slots_ = 0;  ///< that have ended
  std::int64_t plans_ = 0;
  plan::PoolsPlan newest_;
  std::vector<plan::PoolType> rated_;  ///< the types that `newest_` was made for
  std::vector<PoolId> pool_of_;        ///< by type of the partition in force
  bool filling_ = false;               ///< a node went down, and not all of the plan serves since
  Plan current_;
  const char* reason_ = "";
  std::string problem_;
};

}  // namespace wattle::managers
