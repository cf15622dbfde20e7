#pragma once
// Which pools a request may go to, and in which order: by the weights of the plan in force, then larger pools.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/fleet.h"
#include "model/plan.h"

namespace wattle::control {

/// What the weights of a class lack of 1: the share of it that is shed; 0 where they say nothing of it.
[[nodiscard]] double shed_share(std::span<const PoolWeight> weights, ClassId request_class);
/// Some class is shed in part.
[[nodiscard]] bool sheds_any(std::span<const PoolWeight> weights);

/// A class's requests are shared out over its pools by weight, evenly in time (smooth weighted round-robin, without
/// chance). Where its own pool cannot take a request, another of its own or the next larger pool may (DynamoLLM,
/// section IV-D); a pool is as large as the largest class it is for. Without weights a class's pools are those that
/// name it, else those for all. Where classes are by tier, no request overflows into a pool of looser tiers alone.
class PoolRouter {
 public:
  /// `classes`: how many there are; `tiers` neighbours of one size each, the strictest last (Classifier::by_tier).
  PoolRouter(const std::vector<Pool>& pools, std::int32_t classes, std::int32_t tiers = 1);

  /// Other classes, of as many tiers as that, from the next reroute() on.
  void sort_by(std::int32_t classes, std::int32_t tiers);
  /// Weights of a plan that has been checked; empty: what pools are for. `pools`: at least so many are known.
  void reroute(std::span<const PoolWeight> weights, std::int32_t pools);
  /// The strictest tier whose requests are meant for this pool, from the loosest, 0. One that nothing is said of is for
  /// all.
  [[nodiscard]] std::int32_t tier_of(PoolId pool) const {
    const auto p = static_cast<std::size_t>(pool.value());
    return p < tier_.size() ? tier_[p] : tiers_ - 1;
  }

  /// False: instances are all alike.
  [[nodiscard]] bool several() const { return sizes_.size() > 1; }
  [[nodiscard]] std::int32_t pools() const { return static_cast<std::int32_t>(sizes_.size()); }

  /// Of a class whose weights add up to less than 1 the rest is not served, evenly in time. Takes the class's turn.
  [[nodiscard]] bool sheds(ClassId request_class);
  /// Nothing of it is served.
  [[nodiscard]] bool sheds_all(ClassId request_class) const { return lacks_[place_of(request_class)].share >= 1.0; }

  struct Order {
    std::span<const PoolId> pools;
    std::size_t fit = 0;  ///< the first so many are meant for it or larger; the rest is for want of any other
  };
  /// Takes the class's turn. Valid until the next call. Some pool comes first always, and each once.
  [[nodiscard]] Order next(ClassId request_class);
  /// This pool and those that are at least as large, from the smallest up. Valid until the next call.
  [[nodiscard]] std::span<const PoolId> larger(PoolId than);

 private:
  struct Share {
    PoolId pool;
    double weight = 0.0;
    double credit = 0.0;
  };
  void add_share(std::int32_t request_class, PoolId pool, double weight);
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
  std::vector<Lack> lacks_;          ///< by class: what the weights lack of 1
  std::vector<std::int32_t> sizes_;  ///< by pool: the largest class it is for
  std::vector<std::int32_t> tier_;   ///< by pool: the strictest it is for
  std::vector<PoolId> by_size_;      ///< ascending
  std::vector<PoolId> order_;        ///< scratch
};

}  // namespace wattle::control
