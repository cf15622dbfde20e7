#pragma once
// Which objectives a request is held to.
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

/// A request is held to its tier's objectives; to those of its size where the tier states none (times the tier's
/// factor), else to the fleet's (likewise). By the size it turned out to have, so that nobody gains by predicting
/// wrongly.
class Objectives {
 public:
  Objectives() : Objectives(Slo{}) {}
  /// One for all.
  Objectives(const Slo& fleet) : Objectives(fleet, {}, {}, {}) {}  // NOLINT(google-explicit-constructor)
  /// `by_size`: of sizes' classes, or empty. Tiers' ids are their positions; none is one without wishes.
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
  /// As believed of its output.
  [[nodiscard]] const Slo& of(const Request& request) const { return of(request.tier, sizes_.of(request)); }
  /// As it turned out.
  [[nodiscard]] const Slo& of(const Request& request, std::int32_t output_tokens) const {
    return of(request.tier, sizes_.of(request.prompt_tokens, output_tokens));
  }

  /// What each gap between two tokens of a request that turned out like this is held to; max(): nothing.
  [[nodiscard]] Span itl_of(TierId tier, std::int32_t prompt_tokens, std::int32_t output_tokens) const {
    return itl_of(of(tier, sizes_.of(prompt_tokens, output_tokens)));
  }
  /// All that this may be for requests of a tier, whatever size they turn out to have; ascending, each once.
  [[nodiscard]] const std::vector<Span>& itl_limits(TierId tier) const { return itl_limits_[row_of(tier)]; }

  [[nodiscard]] const Slo& fleet() const { return fleet_; }
  [[nodiscard]] const Classifier& sizes() const { return sizes_; }
  [[nodiscard]] const std::vector<Slo>& by_size() const { return by_size_; }
  [[nodiscard]] const std::vector<Tier>& tiers() const { return tiers_; }
  /// All requests are held to the same.
  [[nodiscard]] bool uniform() const { return table_.size() == 1; }
  /// What satisfies every request.
  [[nodiscard]] Slo strictest() const {
    Slo all = table_.front();
    for (const Slo& one : table_) tighten(all, one);
    all.ttft_varies = std::ranges::any_of(table_, [&](const Slo& one) { return one.ttft != all.ttft; });
    return all;
  }
  /// What those are held to whose tier is no stricter than the one at this place among `classes`' tiers; all where
  /// those do not tell tiers apart. An instance that serves a tier keeps these: looser ones may come to its pool.
  [[nodiscard]] Objectives up_to(const Classifier& classes, std::int32_t rank) const {
    std::vector<Tier> kept;
    for (std::size_t t = 0; t < tiers_.size(); ++t) {
      if (classes.tier_rank(TierId(static_cast<std::int32_t>(t))) <= rank) kept.push_back(tiers_[t]);
    }
    return {fleet_, sizes_, by_size_, std::move(kept)};
  }
  /// What satisfies every request of its size, whatever its tier.
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

/// What a service is to its clients: how their requests are sorted, what they are promised, who they are.
/// The same in both drivers, journal and report. An empty one: one class, one pool, the fleet's objectives for all.
struct Service {
  Classifier classes;                    ///< what requests are counted and routed by
  std::optional<Objectives> objectives;  ///< none: the fleet's
  std::vector<Tenant> tenants;
  std::vector<Pool> pools;  ///< ids are their positions; empty: instances are all alike

  /// What requests are held to where the fleet's objectives are `fleet`.
  [[nodiscard]] Objectives judged(const Slo& fleet) const { return objectives ? *objectives : Objectives(fleet); }
};

}  // namespace wattle
