#include "plan/pools_terms.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace wattle::plan {

namespace {
constexpr double kJoulesPerKwh = 3.6e6;
constexpr double kFloorShare = 1e-3;  ///< see JouleWeights::cost_weight

double mean_magnitude(const std::vector<std::vector<double>>& series) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const auto& row : series) {
    for (const double value : row) sum += std::abs(value);
    count += row.size();
  }
  return count > 0 ? sum / static_cast<double>(count) : 0.0;
}
}  // namespace

JouleWeights::JouleWeights(const PoolsProblem& problem, const PoolsObjective& objective) {
  std::vector<std::vector<double>> carbon, energy, cost;
  for (const PoolSite& site : problem.sites) {
    const std::size_t slots = site.intensity.size();
    auto& grams = carbon.emplace_back();
    for (const GramsPerKwh intensity : site.intensity) grams.push_back(intensity.value() / kJoulesPerKwh);
    energy.emplace_back(slots, 1.0);
    auto& usd = cost.emplace_back(slots, 0.0);
    for (std::size_t t = 0; t < site.price_usd_per_kwh.size(); ++t) usd[t] = site.price_usd_per_kwh[t] / kJoulesPerKwh;
  }
  const int terms = (objective.carbon > 0.0) + (objective.energy > 0.0) + (objective.cost > 0.0);
  const auto share = [&](double weight, const std::vector<std::vector<double>>& series) {
    if (weight <= 0.0) return 0.0;
    if (terms == 1) return 1.0;
    const double mean = mean_magnitude(series);
    return mean > 0.0 ? weight / mean : 0.0;
  };
  const double c = share(objective.carbon, carbon), e = share(objective.energy, energy),
               u = share(objective.cost, cost);
  for (std::size_t n = 0; n < carbon.size(); ++n) {
    auto& row = weight_.emplace_back();
    for (std::size_t t = 0; t < carbon[n].size(); ++t) {
      row.push_back(c * carbon[n][t] + e * energy[n][t] + u * cost[n][t]);
    }
  }
  const double mean = mean_magnitude(weight_);
  floor_ = mean > 0.0 ? kFloorShare * mean : 1.0;
  set_leanest(problem);
}

void JouleWeights::set_leanest(const PoolsProblem& problem) {
  const std::size_t slots = weight_.front().size();
  std::vector<double> least(slots, std::numeric_limits<double>::infinity());  // J/s for all requests, by slot
  std::vector<std::vector<double>> taken;                                     // by partition
  for (const RequestPartition& partition : problem.partitions) {
    auto& joules = leanest_.emplace_back();
    auto& in_slot = taken.emplace_back(slots, 0.0);
    bool all_served = true;
    for (const PoolType& type : partition.types) {
      double leanest = std::numeric_limits<double>::infinity();
      for (const auto& rating : type.ratings) {
        const bool serves = rating && rating->max_per_s > 0.0 && within_limits(type, *rating);
        if (serves) leanest = std::min(leanest, joules_per_request(*rating));
      }
      const bool served = std::isfinite(leanest);
      joules.push_back(served ? leanest : 0.0);
      all_served = all_served && (served || peak_demand(type) <= 0.0);
      for (std::size_t t = 0; t < slots; ++t) in_slot[t] += joules.back() * type.demand_per_s[t];
    }
    for (std::size_t t = 0; all_served && t < slots; ++t) least[t] = std::min(least[t], in_slot[t]);
  }
  for (const auto& in_slot : taken) {
    auto& share = share_.emplace_back();
    for (std::size_t t = 0; t < slots; ++t) share.push_back(in_slot[t] > least[t] ? least[t] / in_slot[t] : 1.0);
  }
}

double JouleWeights::cost_weight(std::size_t site, std::size_t slot) const {
  return std::max(weight_[site][slot], floor_);
}

bool within_limits(const PoolType& type, const WorkerRating& rating) {
  return rating.ttft <= type.ttft_limit && rating.tbt <= type.tbt_limit;
}

double mean_demand(const PoolType& type) {
  return std::accumulate(type.demand_per_s.begin(), type.demand_per_s.end(), 0.0) /
         static_cast<double>(type.demand_per_s.size());
}

double peak_demand(const PoolType& type) {
  return *std::max_element(type.demand_per_s.begin(), type.demand_per_s.end());
}

std::vector<GpuLimit> gpu_limits(const PoolsProblem& problem, const PoolSite& site) {
  std::vector<GpuLimit> limits;
  for (std::size_t c = 0; c < problem.kinds.size(); ++c) {
    limits.push_back({c, 1, site.gpus[c]});
    if (c >= site.nodes.size() || site.nodes[c].empty()) continue;
    std::set<int> sizes;
    for (const WorkerMode& mode : problem.modes) {
      mode.each_block(c, [&](int together) {
        if (together > 1) sizes.insert(together);
      });
    }
    for (const int size : sizes) {
      int held = 0;
      for (const int gpus : site.nodes[c]) held += gpus / size * size;
      if (held < site.gpus[c] / size * size) limits.push_back({c, size, held});
    }
  }
  return limits;
}

}  // namespace wattle::plan
