#pragma once
// The objectives that apply to a request.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model/classifier.h"
#include "model/fleet.h"
#include "model/request.h"

namespace wattle {

/// A request's objectives are its tier's; where the tier states none, those of its size class, otherwise the fleet's,
/// both times the tier's factor. The class follows from its actual size, so that a wrong prediction is no advantage.
class Objectives {
 public:
  Objectives() : Objectives(Slo{}) {}
  /// The same objectives for all requests.
  Objectives(const Slo& fleet) : Objectives(fleet, {}, {}, {}) {}  // NOLINT(google-explicit-constructor)
  /// `by_size`: by class of `sizes`, or empty. Tier ids are positions in `tiers`; empty: one tier that states nothing.
  Objectives(const Slo& fleet, Classifier sizes, std::vector<Slo> by_size, std::vector<Tier> tiers)
      : fleet_(fleet), sizes_(std::move(sizes)), by_size_(std::move(by_size)), tiers_(std::move(tiers)) {
    by_size_.resize(static_cast<std::size_t>(sizes_.size()));
    const Tier plain;
    for (std::size_t t = 0; t < std::max<std::size_t>(tiers_.size(), 1); ++t) {
      const Tier& tier = tiers_.empty() ? plain : tiers_[t];
      auto& limits = itl_limits_.emplace_back();
      for (const Slo& size : by_size_) {
        table_.push_back(merged(tier, size, fleet_));
        limits.push_back(itl_of(table_.back()));
      }
      std::ranges::sort(limits);
      limits.erase(std::ranges::unique(limits).begin(), limits.end());
    }
  }

  [[nodiscard]] const Slo& of(TierId tier, ClassId size) const {
    return table_[row_of(tier) * by_size_.size() + static_cast<std::size_t>(size.value())];
  }
  /// By its predicted output.
  [[nodiscard]] const Slo& of(const Request& request) const { return of(request.tier, sizes_.of(request)); }
  /// By its actual output.
  [[nodiscard]] const Slo& of(const Request& request, std::int32_t output_tokens) const {
    return of(request.tier, sizes_.of(request.prompt_tokens, output_tokens));
  }

  /// The limit for each token gap of a request of this size; max(): none.
  [[nodiscard]] Span itl_of(TierId tier, std::int32_t prompt_tokens, std::int32_t output_tokens) const {
    return itl_of(of(tier, sizes_.of(prompt_tokens, output_tokens)));
  }
  /// All values that itl_of() may have for a tier; ascending, without duplicates.
  [[nodiscard]] const std::vector<Span>& itl_limits(TierId tier) const { return itl_limits_[row_of(tier)]; }

  [[nodiscard]] const Slo& fleet() const { return fleet_; }
  [[nodiscard]] const Classifier& sizes() const { return sizes_; }
  [[nodiscard]] const std::vector<Slo>& by_size() const { return by_size_; }
  [[nodiscard]] const std::vector<Tier>& tiers() const { return tiers_; }
  /// True if all requests have the same objectives.
  [[nodiscard]] bool uniform() const { return table_.size() == 1; }
  /// Objectives that satisfy every request.
  [[nodiscard]] Slo strictest() const {
    Slo all = table_.front();
    for (const Slo& one : table_) tighten(all, one);
    all.ttft_varies = std::ranges::any_of(table_, [&](const Slo& one) { return one.ttft != all.ttft; });
    return all;
  }
  /// The objectives of the tiers that are no stricter than position `rank` in `classes`' order of tiers; all if
  /// `classes` has no tiers. An instance that serves a tier must meet these, because requests of looser tiers may come
  /// to its pool.
  [[nodiscard]] Objectives up_to(const Classifier& classes, std::int32_t rank) const {
    std::vector<Tier> kept;
    for (std::size_t t = 0; t < tiers_.size(); ++t) {
      if (classes.tier_rank(TierId(static_cast<std::int32_t>(t))) <= rank) kept.push_back(tiers_[t]);
    }
    return {fleet_, sizes_, by_size_, std::move(kept)};
  }
  /// For each size, objectives that satisfy every tier.
  [[nodiscard]] Objectives of_strictest_tier() const {
    std::vector<Slo> strictest(by_size_.size());
    for (std::size_t row = 0; row < table_.size(); ++row) tighten(strictest[row % by_size_.size()], table_[row]);
    return {fleet_, sizes_, std::move(strictest), {}};
  }

 private:
  static constexpr std::optional<Span> Slo::*kAll[] = {&Slo::ttft, &Slo::itl, &Slo::tbt, &Slo::e2e};

  static void tighten(Slo& all, const Slo& one) {
    for (const auto objective : kAll) {
      auto& least = all.*objective;
      const auto& stated = one.*objective;
      if (stated && (!least || *stated < *least)) least = stated;
    }
  }
  static Span itl_of(const Slo& slo) { return slo.itl.value_or(Span::max()); }
  [[nodiscard]] std::size_t row_of(TierId tier) const {
    return std::min(static_cast<std::size_t>(std::max(tier.value(), 0)), itl_limits_.size() - 1);
  }
  static Slo merged(const Tier& tier, const Slo& size, const Slo& fleet) {
    Slo merged;
    for (const auto objective : kAll) {
      const auto& inherited = size.*objective ? size.*objective : fleet.*objective;
      if (tier.slo.*objective) {
        merged.*objective = tier.slo.*objective;
      } else if (inherited) {
        merged.*objective = Span(std::llround(static_cast<double>((*inherited).ns()) * tier.factor));
      }
    }
    return merged;
  }

  Slo fleet_;
  Classifier sizes_;
  std::vector<Slo> by_size_;
  std::vector<Tier> tiers_;
  std::vector<Slo> table_;                     ///< by tier, then by size
  std::vector<std::vector<Span>> itl_limits_;  ///< by tier
};

/// What defines a service for its clients: classes, objectives, tenants and pools. The same in both drivers, the
/// journal and reports. Default: one class, one pool, the fleet's objectives for all.
struct Service {
  Classifier classes;                    ///< by which requests are counted and routed
  std::optional<Objectives> objectives;  ///< none: the fleet's
  std::vector<Tenant> tenants;
  std::vector<Pool> pools;  ///< ids are positions; empty: one pool

  /// The objectives for judging requests if the fleet's are `fleet`.
  [[nodiscard]] Objectives judged(const Slo& fleet) const { return objectives ? *objectives : Objectives(fleet); }
};

}  // namespace wattle
