#include "calibrate/load_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "workload/poisson_rows.h"

namespace wattle::calibrate {

namespace {

/// Scales the latency of a request with its own objective to the class's objective.
Span in_terms_of(Span limit, Span latency, std::optional<Span> own) {
  if (!own || *own == limit || limit == Span::max()) return latency;
  return Span::from_seconds(latency.seconds() * (limit.seconds() / own->seconds()));
}

Span nearest_rank(std::vector<Span> all, double quantile) {
  if (all.empty()) return Span::max();
  const auto rank = static_cast<std::size_t>(std::ceil(quantile * static_cast<double>(all.size())));
  const auto at = all.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::ranges::nth_element(all, at);
  return *at;
}

/// Of requests that came, as many have to be served: what ends in a while is known to as much.
constexpr double kKeptUp = 0.97;

double share_within(const std::vector<Span>& all, Span limit) {
  const auto within = std::ranges::count_if(all, [&](Span one) { return one <= limit; });
  return all.empty() ? 0.0 : static_cast<double>(within) / static_cast<double>(all.size());
}

/// Why a bench gave nothing where it had to.
std::unexpected<Error> nothing_from(const LoadBench& bench, const ClassRequests& of, MegaHertz clock) {
  if (auto why = bench.failure()) return std::unexpected(std::move(*why));
  return std::unexpected(Error{ErrorKind::Failed, of.name,
                               fmt::format("lone requests are not served at TP{}, {} MHz", bench.tp(), clock.value())});
}

/// One class at one TP degree and clock.
class Search {
 public:
  Search(LoadBench& bench, const ClassRequests& of, const HeldQuantiles& held, MegaHertz clock,
         const LoadSearchOptions& options)
      : bench_(bench), of_(of), held_(held), clock_(clock), options_(options) {}

  [[nodiscard]] Result<plan::ShardProfile> profile(double guess) {
    plan::ShardProfile made{bench_.tp(), clock_, {}};
    const bool whole = held_.ttft >= options_.quantile && held_.tbt >= options_.quantile;
    const auto idle_power = bench_.idle_power(clock_);
    const auto lone = bench_.lone(of_, clock_, held_, whole);
    if (!lone || !idle_power) return nothing_from(bench_, of_, clock_);
    plan::LoadPoint idle = lone->point;
    idle.load_per_s = 0.0;
    idle.power = *idle_power;
    made.points.push_back(idle);
    const auto [low, high] = within(idle) ? most_load(guess) : std::pair(0.0, 0.0);
    if (low == 0.0) {  // lone requests miss the limits, or two at once do
      idle.load_per_s = kLoneLoad;
      made.points.push_back(idle);
    } else {
      add_loads(low, high, made);
    }
    if (auto why = bench_.failure()) return std::unexpected(std::move(*why));
    return made;
  }

 private:
  [[nodiscard]] bool within(const plan::LoadPoint& p) const {
    return p.ttft <= of_.limits.ttft && p.tbt <= of_.limits.tbt;
  }
  [[nodiscard]] const MeasuredLoad* at(double load) {
    auto found = measured_.find(load);
    if (found == measured_.end()) found = measured_.emplace(load, bench_.measure(of_, clock_, held_, load)).first;
    return found->second ? &*found->second : nullptr;
  }
  [[nodiscard]] bool good(double load) {
    const auto* point = at(load);
    return point != nullptr && point->kept_up && within(point->point);
  }

  /// A load within the limits, 0 where there is none, and one beyond.
  std::pair<double, double> most_load(double guess) {
    double low = 0.0, high = 0.0;
    for (double load = guess; low == 0.0 || high == 0.0;) {
      const bool kept = good(load);
      (kept ? low : high) = load;
      if (load < options_.least_load || bench_.failure()) break;
      load = kept ? load * options_.stride : load / options_.stride;
    }
    while (low > 0.0 && high > low * options_.tolerance && !bench_.failure()) {
      const double load = std::sqrt(low * high);
      (good(load) ? low : high) = load;
    }
    return {low, high};
  }

  void add_loads(double low, double high, plan::ShardProfile& made) {
    std::vector<double> loads = {0.0};
    for (const double share : options_.shares) loads.push_back(share * low);
    loads.back() = low;
    std::erase_if(loads, [&](double load) { return load > 0.0 && at(load) == nullptr; });
    const auto power_at = [&](double load) { return load == 0.0 ? made.points[0].power : at(load)->point.power; };
    const double rise = std::max(1.0, (power_at(low) - power_at(0.0)).value());
    for (int halving = 0; halving < options_.halvings; ++halving) {
      for (std::size_t i = 0; i + 1 < loads.size(); ++i) {
        if ((power_at(loads[i + 1]) - power_at(loads[i])).value() <= options_.bend * rise) continue;
        const double middle = (loads[i] + loads[i + 1]) / 2.0;
        if (at(middle) != nullptr) loads.insert(loads.begin() + static_cast<std::ptrdiff_t>(++i), middle);
      }
    }
    if (clock_ == options_.clocks.back()) {
      if (const double useful = most_useful(low, high); useful > low) loads.insert(loads.end(), {high, useful});
    }
    for (std::size_t i = 1; i < loads.size(); ++i) {
      if (loads[i] <= loads[i - 1]) continue;
      plan::LoadPoint point = at(loads[i])->point;
      // The same arrivals denser: what falls with the load is noise of the quantile.
      point.ttft = std::max(point.ttft, made.points.back().ttft);
      point.tbt = std::max(point.tbt, made.points.back().tbt);
      made.points.push_back(point);
    }
  }

  /// Beyond the limits a growing share of requests misses them: returns the load beyond which fewer requests per second
  /// meet them. If the load is limited by throughput instead, returns `low`.
  double most_useful(double low, double high) {
    if (at(high) == nullptr || within(at(high)->point)) return low;
    double best = low, kept_per_s = low * at(low)->kept;
    int worse = 0;
    for (double load = high; worse < 2; load *= options_.beyond) {
      const auto* point = at(load);
      if (point == nullptr) break;
      const bool more = load * point->kept > kept_per_s;
      worse = more ? 0 : worse + 1;
      if (!more) continue;
      best = load;
      kept_per_s = load * point->kept;
    }
    return best;
  }

  LoadBench& bench_;
  const ClassRequests& of_;
  const HeldQuantiles& held_;
  MegaHertz clock_;
  const LoadSearchOptions& options_;
  std::map<double, std::optional<MeasuredLoad>> measured_;  ///< by load
};

/// The quantile that plans hold a class to: the configured one or, if no configuration meets it even for requests that
/// are alone, as many points below the best configuration's share as the quantile is below 100 %. If that is below
/// half, the configured one: no plan can hold it. `kept_alone`: see ProfiledClass.
Result<HeldQuantiles> held_to(const ClassRequests& of, std::span<LoadBench* const> benches,
                              const LoadSearchOptions& options, double& kept_alone) {
  HeldQuantiles most{0.0, 0.0};
  kept_alone = 0.0;
  for (LoadBench* bench : benches) {
    const auto lone = bench->lone(of, options.clocks.back(), {1.0, 1.0}, false);
    if (!lone) return nothing_from(*bench, of, options.clocks.back());
    most = {std::max(most.ttft, lone->ttft_kept), std::max(most.tbt, lone->tbt_kept)};
    kept_alone = std::max(kept_alone, lone->kept);
  }
  const auto held = [&](double kept) {
    const double within_reach = kept - (1.0 - options.quantile);
    return kept >= options.quantile || within_reach < 0.5 ? options.quantile : within_reach;
  };
  return HeldQuantiles{held(most.ttft), held(most.tbt)};
}

void note(std::vector<std::string>& provenance, const std::string& name, const char* what, double held,
          double quantile) {
  if (held >= quantile) return;
  provenance.push_back(fmt::format("class {}: {} of {:.1f} % of requests, no configuration keeps {:g} %", name, what,
                                   100 * held, 100 * quantile));
}

}  // namespace

void LatencyTally::add(const Slo& own, Instant arrival, Span ttft, Span tbt, Span e2e) {
  arrivals_.push_back(arrival);
  ends_.push_back(arrival + e2e);
  answering_ += e2e - ttft;
  if (arrival < from_) return;
  e2e_ += e2e;
  Span latest = own.ttft || !own.e2e ? in_terms_of(of_.limits.ttft, ttft, own.ttft) : Span();
  if (own.e2e) latest = std::max(latest, in_terms_of(of_.limits.ttft, e2e, own.e2e));
  ttft_.push_back(latest);
  tbt_.push_back(in_terms_of(of_.limits.tbt, tbt, own.mean_gap()));
  if (ttft_.back() <= of_.limits.ttft && tbt_.back() <= of_.limits.tbt) ++kept_;
}

bool LatencyTally::kept_up() const {
  if (arrivals_.empty()) return true;
  const auto [first, last] = std::ranges::minmax(arrivals_);
  const Span answer = answering_ / static_cast<std::int64_t>(arrivals_.size());
  const Instant begin = std::max(from_, first + answer);
  if (last - begin < (last - from_) / 2 || last <= begin) return true;
  const auto came =
      std::ranges::count_if(arrivals_, [&](Instant at) { return at + answer > begin && at + answer <= last; });
  const auto ended = std::ranges::count_if(ends_, [&](Instant at) { return at > begin && at <= last; });
  // At either border some are under way, as many as are answered at a time, give or take their square root.
  const double at_a_time = answering_.seconds() / (last - first).seconds();
  return static_cast<double>(ended) >= kKeptUp * static_cast<double>(came) - 2.0 * std::sqrt(2.0 * at_a_time);
}

MeasuredLoad LatencyTally::measured(double load_per_s, Watts power, const HeldQuantiles& held) const {
  const double all = static_cast<double>(std::max<std::size_t>(ttft_.size(), 1));
  return {{load_per_s, power, nearest_rank(ttft_, held.ttft), nearest_rank(tbt_, held.tbt)},
          static_cast<double>(kept_) / all,
          share_within(ttft_, of_.limits.ttft),
          share_within(tbt_, of_.limits.tbt),
          Span::from_seconds(e2e_.seconds() / all),
          kept_up()};
}

std::vector<workload::TraceRow> arrivals_of(const ClassRequests& of, std::int64_t requests, double rate_per_s) {
  std::vector<workload::TraceRow> lengths;
  for (const auto& [prompt, output] : of.lengths) lengths.push_back({Instant(), prompt, output});
  workload::PoissonRows arrivals(lengths, requests, rate_per_s, 1, "load_profile.arrivals");
  std::vector<workload::TraceRow> rows;
  while (const auto row = arrivals.next()) rows.push_back(*row);
  return rows;
}

plan::ProfiledClass head_of(const ClassRequests& of) {
  plan::ProfiledClass made;
  made.name = of.name;
  made.limits = of.limits;
  for (const auto& [prompt, output] : of.lengths) {
    made.prompt_tokens += prompt;
    made.output_tokens += output;
  }
  made.prompt_tokens /= static_cast<double>(of.lengths.size());
  made.output_tokens /= static_cast<double>(of.lengths.size());
  return made;
}

Result<void> search_loads(plan::LoadTable& table, std::span<LoadBench* const> benches,
                          const std::vector<ClassRequests>& classes, const LoadSearchOptions& options,
                          const std::function<void(const std::string&)>& progress) {
  for (const ClassRequests& of : classes) {
    if (of.lengths.empty()) return bad_input(of.name, "has no requests to profile it with");
    table.classes.push_back(head_of(of));
  }
  std::vector<HeldQuantiles> held;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const ClassRequests& of = classes[c];
    const auto found = held_to(of, benches, options, table.classes[c].kept_alone);
    if (!found) return std::unexpected(found.error());
    held.push_back(*found);
    note(table.provenance, of.name, "TTFT", found->ttft, options.quantile);
    note(table.provenance, of.name, "TBT", found->tbt, options.quantile);
  }
  for (LoadBench* bench : benches) {
    for (std::size_t c = 0; c < classes.size(); ++c) {
      double guess = bench->first_guess(classes[c]);
      for (const MegaHertz clock : options.clocks) {
        auto made = Search(*bench, classes[c], held[c], clock, options).profile(guess);
        if (!made) return std::unexpected(made.error());
        table.classes[c].profiles.push_back(std::move(*made));
        const double most = plan::most_load(table.classes[c].profiles.back(), classes[c].limits).value_or(0.0);
        if (most > kLoneLoad) guess = most;
      }
      if (progress) progress(fmt::format("{} at TP{}: up to {:.3g} requests/s", classes[c].name, bench->tp(), guess));
    }
  }
  return {};
}

}  // namespace wattle::calibrate
