#include "config/service.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <sstream>
#include <utility>

namespace wattle::config {

namespace {

/// Its position in the list; the first where nothing is named.
template <typename E>
std::int32_t index_of(const std::vector<E>& list, std::string_view name) {
  if (name.empty()) return 0;
  return static_cast<std::int32_t>(std::ranges::find(list, name, &E::name) - list.begin());
}

/// Tiers from the loosest to the strictest, by the first class's objectives: TBT, then TTFT; then in their order.
Classifier sorted_by_tier(const Service& service, const Scenario& scenario) {
  const auto limits = [&](std::size_t tier) {
    const Slo& slo = service.objectives->of(TierId(static_cast<std::int32_t>(tier)), ClassId(0));
    return std::pair(slo.mean_gap().value_or(Span::max()), slo.ttft.value_or(Span::max()));
  };
  std::vector<std::size_t> order(scenario.tiers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, limits);
  std::vector<std::string> names;
  std::vector<std::int32_t> rank(order.size());
  for (const std::size_t tier : order) {
    rank[tier] = static_cast<std::int32_t>(names.size());
    names.push_back(scenario.tiers[tier].name);
  }
  return service.classes.by_tier(std::move(names), std::move(rank));
}

}  // namespace

const char* flaw_of(const ClassOptions& options) {
  for (const auto& borders : {options.prompt_below, options.output_below}) {
    if (std::ranges::adjacent_find(borders, std::greater_equal{}) != borders.end()) {
      return "prompt_below and output_below must ascend, each border once";
    }
  }
  return nullptr;
}

Classifier classifier_of(const ClassOptions& options) { return {options.prompt_below, options.output_below}; }

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> names_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> names;
  for (std::string name; std::getline(stream, name, ',');) {
    const auto first = name.find_first_not_of(' ');
    if (first != std::string::npos) names.push_back(name.substr(first, name.find_last_not_of(' ') + 1 - first));
  }
  return names;
}

Service make_service(const Scenario& scenario, const ClassOptions& classes) {
  Service service;
  const Classifier sizes = classifier_of(scenario.classes);
  service.classes = classes.stated() ? classifier_of(classes) : sizes;
  if (!scenario.class_slos.empty() || !scenario.tiers.empty()) {
    std::vector<Slo> by_size(static_cast<std::size_t>(sizes.size()));
    for (const auto& one : scenario.class_slos) {
      by_size[static_cast<std::size_t>(sizes.find(one.name).value_or(ClassId(0)).value())] = one.slo;
    }
    std::vector<Tier> tiers;
    for (const auto& tier : scenario.tiers) tiers.push_back({tier.name, tier.slo, tier.factor});
    service.objectives = Objectives(scenario.slo, sizes, std::move(by_size), std::move(tiers));
  }
  if (classes.by_tier && scenario.tiers.size() > 1) service.classes = sorted_by_tier(service, scenario);
  for (const auto& tenant : scenario.tenants) {
    service.tenants.push_back({tenant.name,
                               TierId(index_of(scenario.tiers, tenant.tier)),
                               site_named(scenario, tenant.origin),
                               tenant.priority,
                               tenant.share,
                               {}});
    for (const auto& name : names_of(tenant.residency)) {
      service.tenants.back().residency.allow(site_named(scenario, name));
    }
  }
  for (const auto& pool : scenario.serving_pools) {
    Pool& made = service.pools.emplace_back();
    made.id = PoolId(static_cast<std::int32_t>(service.pools.size()) - 1);
    made.name = pool.name;
    for (const std::string& name : words_of(pool.classes)) {
      // Another classification has other classes: then a plan says what its pools are for.
      if (const auto id = sizes.find(name); id && service.classes == sizes) made.classes.push_back(*id);
    }
  }
  return service;
}

SiteId site_named(const Scenario& scenario, std::string_view name) { return SiteId(index_of(scenario.sites, name)); }

PoolId pool_named(const Scenario& scenario, std::string_view name) {
  return PoolId(index_of(scenario.serving_pools, name));
}

}  // namespace wattle::config
