#pragma once
// Which objectives each instance has to keep at present, if the tiers of a service have separate pools.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "control/answer_gaps.h"
#include "model/objectives.h"

namespace wattle::control {

/// An instance keeps the objectives of the strictest tier that its pool serves, or of which it has a request, and of
/// all looser ones. So a request that was sent under an earlier plan, or because there was no other pool, is held to
/// its own objectives until it has left. If classes do not distinguish tiers (Classifier::by_tier), every instance
/// keeps the objectives of all requests.
class PoolObjectives {
 public:
  /// `answers`: instances keep the objectives that follow from these (AnswerOptions::aims).
  PoolObjectives(const Objectives& all, const Classifier& classes, const AnswerOptions& answers = {});

  /// After this call, call serves() again for each instance.
  void sort_by(const Objectives& all, const Classifier& classes);
  /// Adds an instance whose pool serves tiers up to this rank among the classes' tiers (0: the loosest).
  void add(std::int32_t rank);
  void remove(std::size_t i);
  /// Returns whether its objectives have changed.
  bool serves(std::size_t i, std::int32_t rank);
  /// A request of this tier has arrived (1) or left (-1). Returns whether its objectives have changed.
  bool count(std::size_t i, TierId tier, int sign);
  /// From now on mean gaps of tiers up to this rank are also within `gap` (AnswerGaps); max(): no such limit. After
  /// this call, call again() for each instance.
  void limit(std::int32_t rank, Span gap) { limits_[static_cast<std::size_t>(rank)] = gap; }
  [[nodiscard]] Span limit(std::int32_t rank) const { return limits_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::int32_t ranks() const { return static_cast<std::int32_t>(by_rank_.size()); }
  /// Returns whether its objectives have changed.
  bool again(std::size_t i) { return update(instances_[i]); }

  [[nodiscard]] const Slo& of(std::size_t i) const { return instances_[i].keeps; }
  /// max(): no objective.
  [[nodiscard]] Span mean_gap(std::size_t i) const { return of(i).tbt.value_or(Span::max()); }
  /// Whether these are the objectives to which all requests are held.
  [[nodiscard]] bool strictest(std::size_t i) const { return of(i) == by_rank_.back(); }

 private:
  struct Instance {
    std::int32_t pool;                     ///< rank of the strictest tier that its pool serves
    std::vector<std::int32_t> there = {};  ///< number of requests, by tier
    Slo keeps = {};
  };
  bool update(Instance& instance) const;

  AnswerOptions answers_;
  std::size_t tiers_;
  std::vector<std::int32_t> ranks_;  ///< by tier
  std::vector<Slo> by_rank_;         ///< objectives of a tier and all looser ones; never empty
  std::vector<Span> limits_;         ///< on mean gaps, likewise
  std::vector<Instance> instances_;
};

}  // namespace wattle::control
