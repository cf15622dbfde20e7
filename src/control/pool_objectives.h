#pragma once
// Which objectives each instance has to keep at present, where tiers of a service have pools of their own.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/objectives.h"

namespace wattle::control {

/// An instance keeps the objectives of the strictest tier that its pool serves, or of which a request is there, and of
/// all looser ones. So a request that came by the plan before, or for want of any other pool, is held to its own
/// until it has left. Where classes do not tell tiers apart (Classifier::by_tier) that is what all requests are held
/// to.
class PoolObjectives {
 public:
  PoolObjectives(const Objectives& all, const Classifier& classes);

  /// Ask serves() again of each.
  void sort_by(const Objectives& all, const Classifier& classes);
  /// One more; its pool serves tiers up to this place among the classes', the loosest being 0.
  void add(std::int32_t rank);
  void remove(std::size_t i);
  /// True: what it has to keep has changed.
  bool serves(std::size_t i, std::int32_t rank);
  /// A request of this tier has come (1) or is there no more (-1). True: what it has to keep has changed.
  bool count(std::size_t i, TierId tier, int sign);

  [[nodiscard]] const Slo& of(std::size_t i) const { return instances_[i].keeps; }
  /// That is what all requests are held to.
  [[nodiscard]] bool strictest(std::size_t i) const { return of(i) == by_rank_.back(); }

 private:
  struct Instance {
    std::int32_t pool;                     ///< the strictest tier that its pool serves
    std::vector<std::int32_t> there = {};  ///< requests, by tier
    Slo keeps = {};
  };
  bool update(Instance& instance) const;

  std::size_t tiers_;
  std::vector<std::int32_t> ranks_;  ///< by tier
  std::vector<Slo> by_rank_;         ///< what a tier and all looser ones are held to; never empty
  std::vector<Instance> instances_;
};

}  // namespace wattle::control
