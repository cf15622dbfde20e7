#include "plan/pools_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace wattle::plan {

namespace {

class Checker {
 public:
  Checker(const PoolsProblem& problem, const PoolsOptions& options, const PoolsPlan& plan, const PoolsPlan* previous)
      : problem_(problem), options_(options), plan_(plan), previous_(previous) {}

  std::vector<std::string> run() {
    if (!plan_.found()) {
      if (!plan_.pools.empty()) fault("a plan without an answer has workers");
      return faults_;
    }
    if (!shape()) return faults_;
    gpus();
    latency();
    demand();
    worth();
    return faults_;
  }

 private:
  void fault(std::string text) { faults_.push_back(std::move(text)); }
  [[nodiscard]] bool published() const { return options_.formulation == PoolsFormulation::Published; }
  [[nodiscard]] const PoolType& type(const WorkerPool& pool) const {
    return problem_.partitions[plan_.partition].types[pool.type];
  }
  [[nodiscard]] const PoolType& type(std::size_t r) const { return problem_.partitions[plan_.partition].types[r]; }
  static bool same(double a, double b, double scale) { return std::abs(a - b) <= 1e-6 * std::max(1e-9, scale); }

  bool shape() {
    if (plan_.partition >= problem_.partitions.size()) return fault("its partition does not exist"), false;
    const auto& types = problem_.partitions[plan_.partition].types;
    std::set<std::tuple<std::size_t, std::size_t, std::size_t>> seen;
    for (const WorkerPool& pool : plan_.pools) {
      if (pool.site >= problem_.sites.size() || pool.type >= types.size() || pool.mode >= problem_.modes.size()) {
        return fault("a pool names a site, type or mode that does not exist"), false;
      }
      if (pool.workers <= 0) fault("a pool has no workers");
      if (!problem_.sites[pool.site].has_mode(pool.mode)) {
        fault(fmt::format("site {}: {} cannot be started there", problem_.sites[pool.site].name,
                          problem_.modes[pool.mode].name));
      }
      if (!seen.emplace(pool.site, pool.type, pool.mode).second) fault("a pool is there twice");
    }
    if (plan_.shed_per_s.size() != types.size()) return fault("it does not say what each type sheds"), false;
    return true;
  }

  void gpus() {
    for (std::size_t n = 0; n < problem_.sites.size(); ++n) {
      for (std::size_t c = 0; c < problem_.kinds.size(); ++c) {
        long long used = 0;
        for (const WorkerPool& pool : plan_.pools) {
          if (pool.site == n) used += static_cast<long long>(pool.workers) * problem_.modes[pool.mode].gpus[c];
        }
        if (used > problem_.sites[n].gpus[c]) {
          fault(fmt::format("site {}: {} {} GPUs used, {} there", problem_.sites[n].name, used, problem_.kinds[c],
                            problem_.sites[n].gpus[c]));
        } else if (!packs(n, c)) {
          fault(fmt::format("site {}: no node has room for some worker's {} GPUs", problem_.sites[n].name,
                            problem_.kinds[c]));
        }
      }
    }
  }

  /// Largest first, each onto the first node with room: finds the way in whenever sizes divide one another.
  [[nodiscard]] bool packs(std::size_t n, std::size_t c) const {
    if (c >= problem_.sites[n].nodes.size() || problem_.sites[n].nodes[c].empty()) return true;
    std::vector<int> left = problem_.sites[n].nodes[c];
    std::vector<int> workers;
    for (const WorkerPool& pool : plan_.pools) {
      problem_.modes[pool.mode].each_block(c, [&](int together) {
        const auto count = static_cast<std::size_t>(pool.site == n && together > 0 ? pool.workers : 0);
        workers.insert(workers.end(), count, together);
      });
    }
    std::ranges::sort(workers, std::greater{});
    return std::ranges::all_of(workers, [&](int gpus) {
      const auto node = std::ranges::find_if(left, [gpus](int free) { return free >= gpus; });
      if (node != left.end()) *node -= gpus;
      return node != left.end();
    });
  }

  void latency() {
    for (const WorkerPool& pool : plan_.pools) {
      const auto& rating = type(pool).ratings[pool.mode];
      if (!rating) {
        fault(fmt::format("{} runs {}, which was not measured", type(pool).name, problem_.modes[pool.mode].name));
      } else if (rating->ttft > type(pool).ttft_limit || rating->tbt > type(pool).tbt_limit) {
        fault(fmt::format("{} runs {} outside its latency limits", type(pool).name, problem_.modes[pool.mode].name));
      }
    }
  }

  void demand() {
    const auto& types = problem_.partitions[plan_.partition].types;
    bool sheds = false;
    for (std::size_t r = 0; r < types.size(); ++r) {
      double peak = 0.0, mean = 0.0, capacity = 0.0, load = 0.0;
      for (const double d : types[r].demand_per_s) {
        peak = std::max(peak, d);
        mean += d / static_cast<double>(types[r].demand_per_s.size());
      }
      const double shed = plan_.shed_per_s[r];
      if (shed < -1e-6 * mean || shed > mean * (1 + 1e-6))
        fault(types[r].name + " sheds more than there is, or less than 0");
      if (plan_.status != PoolsStatus::Shed && shed > 1e-6 * mean)
        fault(types[r].name + " sheds though the plan says not");
      sheds = sheds || shed > 1e-6 * mean;
      for (const WorkerPool& pool : plan_.pools) {
        if (pool.type != r || !types[r].ratings[pool.mode]) continue;
        const double each = types[r].ratings[pool.mode]->max_per_s;
        capacity += each * pool.workers;
        load += pool.load_per_s;
        // Weights stand for the window, so the peak reaches a worker in proportion to its mean load.
        const double at_peak = mean > 0.0 ? pool.load_per_s * peak / mean : 0.0;
        if (!published() && plan_.alpha * at_peak > each * pool.workers * (1 + 1e-6)) {
          fault(fmt::format("{} on {} at {} gets {:.6g}/s at the peak, more than its workers sustain with the margin",
                            types[r].name, problem_.modes[pool.mode].name, problem_.sites[pool.site].name, at_peak));
        }
      }
      const double wanted = plan_.alpha * peak * (mean > 0.0 ? 1.0 - shed / mean : 1.0);
      if (capacity < wanted - 1e-6 * peak) {
        fault(fmt::format("{} has capacity for {:.6g}/s, needs {:.6g}/s", types[r].name, capacity, wanted));
      }
      kept(r, mean, peak);
      if (!same(load + shed, mean, mean)) {
        fault(fmt::format("{}: loads and shed sum to {:.6g}/s, demand is {:.6g}/s", types[r].name, load + shed, mean));
      }
    }
    if (plan_.status == PoolsStatus::Shed && !sheds) fault("it says that it sheds, and no type does");
    const double allowed = plan_.status == PoolsStatus::Planned ? options_.alpha : 1.0;
    if (!same(plan_.alpha, allowed, allowed)) fault("its margin is not what its status says");
  }

  /// What may be at some sites alone has its place there.
  void kept(std::size_t r, double mean, double peak) {
    for (const KeptUnion& at : kept_unions(type(r))) {
      double load = 0.0, capacity = 0.0;
      for (const WorkerPool& pool : plan_.pools) {
        if (pool.type != r || !at.sites[pool.site] || !type(r).ratings[pool.mode]) continue;
        load += pool.load_per_s;
        capacity += pool.workers * type(r).ratings[pool.mode]->max_per_s;
      }
      const bool carried = published() ? capacity >= at.share * plan_.alpha * peak - 1e-6 * peak
                                       : load + plan_.shed_per_s[r] >= at.share * mean - 1e-6 * mean;
      if (!carried) fault(fmt::format("{}: the sites of {:.4g} of it cannot carry that", type(r).name, at.share));
    }
  }

  /// What a joule at a site in a slot is worth, in the objective's unit.
  [[nodiscard]] double weight(std::size_t n, std::size_t t) const {
    const PoolsObjective& o = options_.objective;
    const auto term = [&](double share, auto&& value) {
      if (share <= 0.0) return 0.0;
      const double here = value(problem_.sites[n], t);
      if ((o.carbon > 0.0) + (o.energy > 0.0) + (o.cost > 0.0) == 1) return here;
      double total = 0.0, count = 0.0;
      for (const PoolSite& site : problem_.sites) {
        for (std::size_t k = 0; k < site.intensity.size(); ++k, count += 1.0) total += std::abs(value(site, k));
      }
      return total > 0.0 ? share * here * count / total : 0.0;
    };
    return term(o.carbon, [](const PoolSite& s, std::size_t k) { return s.intensity[k].value() / 3.6e6; }) +
           term(o.energy, [](const PoolSite&, std::size_t) { return 1.0; }) +
           term(o.cost, [](const PoolSite& s, std::size_t k) {
             return s.price_usd_per_kwh.empty() ? 0.0 : s.price_usd_per_kwh[k] / 3.6e6;
           });
  }

  /// Of a request of the type, by the leanest mode that may serve it; none: no mode may.
  static std::optional<double> leanest(const PoolType& type) {
    std::optional<double> least;
    for (const auto& rating : type.ratings) {
      if (!rating || rating->max_per_s <= 0.0) continue;
      if (rating->ttft > type.ttft_limit || rating->tbt > type.tbt_limit) continue;
      const double joules = (rating->peak - rating->idle).value() / rating->max_per_s;
      if (!least || joules < *least) least = joules;
    }
    return least;
  }

  /// What a request may earn joules for at most: the leanest ones of its type, less as far as all requests of the slot
  /// would take more of them than in another partition that can serve all of its.
  [[nodiscard]] double earning_joules(std::size_t r, std::size_t t) const {
    double here = 0.0;
    std::optional<double> lowest;
    for (std::size_t s = 0; s < problem_.partitions.size(); ++s) {
      double watts = 0.0;
      bool whole = true;
      for (const PoolType& one : problem_.partitions[s].types) {
        const bool asked = std::ranges::any_of(one.demand_per_s, [](double d) { return d > 0.0; });
        const auto joules = leanest(one);
        if (joules) watts += *joules * one.demand_per_s[t];
        if (!joules && asked) whole = false;
      }
      if (s == plan_.partition) here = watts;
      if (whole && (!lowest || watts < *lowest)) lowest = watts;
    }
    const double own = leanest(type(r)).value_or(0.0);
    return lowest && *lowest < here ? own * *lowest / here : own;
  }

  void worth() {
    const std::size_t slots = problem_.sites[0].intensity.size();
    const double seconds = problem_.slot.seconds();
    double magnitude = 0.0;
    for (std::size_t n = 0; n < problem_.sites.size(); ++n) {
      for (std::size_t t = 0; t < slots; ++t) magnitude += std::abs(weight(n, t));
    }
    const double least = magnitude > 0.0 ? 1e-3 * magnitude / static_cast<double>(problem_.sites.size() * slots) : 1.0;
    double objective = 0.0, energy = 0.0, carbon = 0.0, cost = 0.0, scale = 0.0;
    for (const WorkerPool& pool : plan_.pools) {
      const auto& rating = type(pool).ratings[pool.mode];
      if (!rating) continue;
      double mean = 0.0;
      for (const double d : type(pool).demand_per_s) mean += d / static_cast<double>(slots);
      for (std::size_t t = 0; t < slots; ++t) {
        const double w = weight(pool.site, t);
        const double rate = mean > 0.0 ? pool.load_per_s * type(pool).demand_per_s[t] / mean : 0.0;
        double joules = rating->peak.value() * pool.workers * seconds;
        double value = joules * w;
        if (!published()) {
          joules =
              (rating->idle.value() * pool.workers + (rating->peak - rating->idle).value() * rate / rating->max_per_s) *
              seconds;
          value = joules * std::max(w, least) + rate * earning_joules(pool.type, t) * std::min(0.0, w) * seconds;
        }
        objective += value;
        scale += std::abs(joules * w) + joules * least;
        energy += joules;
        carbon += joules / 3.6e6 * problem_.sites[pool.site].intensity[t].value();
        if (!problem_.sites[pool.site].price_usd_per_kwh.empty()) {
          cost += joules / 3.6e6 * problem_.sites[pool.site].price_usd_per_kwh[t];
        }
      }
    }
    objective += starts(least);
    if (!same(objective, plan_.objective, scale)) {
      fault(fmt::format("its objective is {:.9g}, not {:.9g}", objective, plan_.objective));
    }
    if (!same(energy, plan_.energy.value(), energy)) fault("its energy is not that of its pools");
    if (!same(carbon, plan_.carbon.value(), std::abs(carbon) + 1e-3)) fault("its carbon is not that of its pools");
    if (!same(cost, plan_.cost.value(), std::abs(cost) + 1e-3)) fault("its cost is not that of its pools");
    if (plan_.bound > plan_.objective + 1e-6 * scale) fault("its bound lies above its objective");
  }

  [[nodiscard]] double starts(double least) const {
    if (published() || previous_ == nullptr) return 0.0;
    std::map<std::pair<std::size_t, std::size_t>, int> more;
    for (const WorkerPool& pool : plan_.pools) more[{pool.site, pool.mode}] += pool.workers;
    for (const WorkerPool& pool : previous_->pools) more[{pool.site, pool.mode}] -= pool.workers;
    double sum = 0.0;
    for (const auto& [where, workers] : more) {
      if (workers <= 0) continue;
      double idle = 0.0;
      for (const PoolType& t : problem_.partitions[plan_.partition].types) {
        const auto& rating = t.ratings[where.second];
        const bool usable = rating && rating->max_per_s > 0.0 && rating->ttft <= t.ttft_limit &&
                            rating->tbt <= t.tbt_limit && *std::ranges::max_element(t.demand_per_s) > 0.0;
        if (usable) idle = std::max(idle, rating->idle.value());
      }
      sum += workers * idle * options_.start_time.seconds() * std::max(weight(where.first, 0), least);
    }
    return sum;
  }

  const PoolsProblem& problem_;
  const PoolsOptions& options_;
  const PoolsPlan& plan_;
  const PoolsPlan* previous_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> check_pools(const PoolsProblem& problem, const PoolsOptions& options, const PoolsPlan& plan,
                                     const PoolsPlan* previous) {
  return Checker(problem, options, plan, previous).run();
}

}  // namespace wattle::plan
