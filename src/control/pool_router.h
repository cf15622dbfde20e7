#pragma once
// Which pools a request may go to, in which order: by the weights of the plan in force, then larger pools.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/fleet.h"
#include "model/plan.h"

namespace wattle::control {

/// 1 minus the sum of a class's weights: the share of it that is shed; 0 if there are no weights for it.
[[nodiscard]] double shed_share(std::span<const PoolWeight> weights, ClassId request_class);
/// Whether any class is shed in part.
[[nodiscard]] bool sheds_any(std::span<const PoolWeight> weights);

/// A class's requests are distributed over its pools by weight, evenly in time (smooth weighted round-robin,
/// deterministic). If its pool cannot take a request, another of its pools or the next larger one may (DynamoLLM,
/// section IV-D); a pool's size is that of the largest class that it serves. Without weights, a class's pools are those
/// that name it, otherwise those for all classes. If classes are by tier, no request overflows into a pool of looser
/// tiers only, unless there is no other.
class PoolRouter {
 public:
  /// `classes`: their number; `tiers`: neighbouring classes of one size, the strictest last (Classifier::by_tier).
  PoolRouter(const std::vector<Pool>& pools, std::int32_t classes, std::int32_t tiers = 1);

  /// Other classes and number of tiers, from the next reroute() on.
  void sort_by(std::int32_t classes, std::int32_t tiers);
  /// Weights of a checked plan; empty: pools' stated classes. `pools`: at least this many are known.
  void reroute(std::span<const PoolWeight> weights, std::int32_t pools);
  /// The strictest tier whose requests are meant for this pool (0: the loosest). A pool without weights is for all
  /// tiers.
  [[nodiscard]] std::int32_t tier_of(PoolId pool) const {
    const auto p = static_cast<std::size_t>(pool.value());
    return p < tier_.size() ? tier_[p] : tiers_ - 1;
  }

  /// False: there is one pool.
  [[nodiscard]] bool several() const { return sizes_.size() > 1; }
  [[nodiscard]] std::int32_t pools() const { return static_cast<std::int32_t>(sizes_.size()); }

  /// Whether this request is shed: if a class's weights sum to less than 1, the rest of its requests is shed, evenly in
  /// time. Takes the class's turn.
  [[nodiscard]] bool sheds(ClassId request_class);
  /// Whether all requests of the class are shed.
  [[nodiscard]] bool sheds_all(ClassId request_class) const { return lacks_[place_of(request_class)].share >= 1.0; }

  struct Order {
    std::span<const PoolId> pools;
    std::size_t own = 0;  ///< the first `own` are the class's own
    std::size_t fit = 0;  ///< the first `fit` are meant for the class or larger ones; the rest is a fallback
  };
  /// The pools for the next request, each once, never empty. Takes the class's turn. Valid until the next call.
  [[nodiscard]] Order next(ClassId request_class);
  /// The same pools, without taking the class's turn.
  [[nodiscard]] Order reach(ClassId request_class);
  /// This pool and all that are at least as large, from the smallest up. Valid until the next call.
  [[nodiscard]] std::span<const PoolId> larger(PoolId than);

 private:
  struct Share {
    PoolId pool;
    double weight = 0.0;
    double credit = 0.0;
  };
  void add_share(std::int32_t request_class, PoolId pool, double weight);
  /// The class's own pools, beginning with `first`, then larger ones, then the rest. Null: no own pool comes first.
  [[nodiscard]] Order order(std::size_t request_class, const Share* first);
  [[nodiscard]] std::size_t place_of(ClassId request_class) const {
    return std::min(static_cast<std::size_t>(std::max(request_class.value(), 0)), lacks_.size() - 1);
  }

  std::vector<Pool> stated_;
  std::int32_t classes_;
  std::int32_t tiers_;
  std::vector<std::vector<Share>> shares_;  ///< by class
  struct Lack {
    double share = 0.0;
    double credit = 0.0;
  };
  std::vector<Lack> lacks_;          ///< by class: 1 minus the sum of its weights
  std::vector<std::int32_t> sizes_;  ///< by pool: the largest class that it serves
  std::vector<std::int32_t> tier_;   ///< by pool: the strictest tier that it serves
  std::vector<PoolId> by_size_;      ///< ascending
  std::vector<PoolId> order_;        ///< scratch
};

}  // namespace wattle::control
