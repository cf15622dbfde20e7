#include "calibrate/load_profiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "base/random.h"
#include "config/make_step_model.h"
#include "sim/simulation.h"
#include "workload/poisson_rows.h"

namespace wattle::calibrate {

namespace {

constexpr double kLone = 1e-3;  ///< requests per second that have the instance to themselves
constexpr std::int64_t kLoneRequests = 40;
constexpr double kTolerance = 1.03;   ///< of the most load
constexpr double kBeyond = 1.1;       ///< from one load beyond the limits to the next
constexpr double kAnswers = 10.0;     ///< as long as so many at its load a measurement lasts: batches fill first
constexpr std::int64_t kLongest = 4;  ///< but has at most so many times the requests

/// Of TTFT and of TBT: the quantile that is held to the limits.
struct Quantiles {
  double ttft, tbt;
};

std::vector<workload::TraceRow> arrivals_of(const ClassRequests& of, std::int64_t requests, double rate_per_s) {
  std::vector<workload::TraceRow> lengths;
  for (const auto& [prompt, output] : of.lengths) lengths.push_back({Instant(), prompt, output});
  workload::PoissonRows arrivals(lengths, requests, rate_per_s, 1, "load_profile.arrivals");
  std::vector<workload::TraceRow> rows;
  while (const auto row = arrivals.next()) rows.push_back(*row);
  return rows;
}

/// Of a request that is held to another objective than its class: as much of the class's as it takes of its own.
Span in_terms_of(Span limit, Span latency, std::optional<Span> own) {
  if (!own || *own == limit || limit == Span::max()) return latency;
  return Span::from_seconds(latency.seconds() * (limit.seconds() / own->seconds()));
}

/// Latencies of what arrives after the first fifth, and mean power from then until the last arrival.
class Watcher final : public journal::Sink {
 public:
  Watcher(const ClassRequests& of, Instant from, Instant until) : of_(of), from_(from), until_(until) {}
  void outcome(const Outcome& o) override {
    if (o.fate != Fate::Finished) unfinished_ = true;
    if (o.request.arrival < from_ || o.fate != Fate::Finished) return;
    const Slo& own = of_.held_to.of(o.request, o.output_tokens);
    ttft_.push_back(in_terms_of(of_.limits.ttft, o.ttft(), own.ttft));
    tbt_.push_back(in_terms_of(of_.limits.tbt, o.tbt(), own.mean_gap()));
    if (ttft_.back() <= of_.limits.ttft && tbt_.back() <= of_.limits.tbt) ++kept_;
    e2e_ += o.e2e();
  }
  void sample(const journal::Sample& s) override {
    if (s.at < from_ || s.at > until_) return;
    auto& [first, last] = seen_[s.instance.value()];
    if (!first) first = s;
    last = s;
  }
  [[nodiscard]] bool unfinished() const { return unfinished_; }
  /// Of one instance, their mean.
  [[nodiscard]] std::optional<Watts> power() const {
    if (seen_.empty()) return std::nullopt;
    Watts sum;
    for (const auto& [id, span] : seen_) {
      const auto& [first, last] = span;
      if (last.at <= first->at) return std::nullopt;
      sum += Watts((last.energy - first->energy).joules().value() / (last.at - first->at).seconds());
    }
    return sum / static_cast<double>(seen_.size());
  }
  /// Shares of the requests within both limits, within that of TTFT, within that of TBT.
  [[nodiscard]] double kept() const { return ttft_.empty() ? 0.0 : kept_ / static_cast<double>(ttft_.size()); }
  [[nodiscard]] Span mean_e2e() const {
    return ttft_.empty() ? Span() : Span::ns(e2e_.ns() / static_cast<std::int64_t>(ttft_.size()));
  }
  [[nodiscard]] double ttft_kept() const { return share_within(ttft_, of_.limits.ttft); }
  [[nodiscard]] double tbt_kept() const { return share_within(tbt_, of_.limits.tbt); }
  [[nodiscard]] Span ttft(double quantile) { return nearest_rank(ttft_, quantile); }
  [[nodiscard]] Span tbt(double quantile) { return nearest_rank(tbt_, quantile); }

 private:
  static Span nearest_rank(std::vector<Span>& all, double quantile) {
    if (all.empty()) return Span::max();
    const auto rank = static_cast<std::size_t>(std::ceil(quantile * static_cast<double>(all.size())));
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
    std::ranges::nth_element(all, at);
    return *at;
  }
  static double share_within(const std::vector<Span>& all, Span limit) {
    const auto within = std::ranges::count_if(all, [&](Span one) { return one <= limit; });
    return all.empty() ? 0.0 : static_cast<double>(within) / static_cast<double>(all.size());
  }
  const ClassRequests& of_;
  Instant from_, until_;
  bool unfinished_ = false;
  double kept_ = 0.0;
  Span e2e_;
  std::vector<Span> ttft_, tbt_;
  std::map<std::int32_t, std::pair<std::optional<journal::Sample>, journal::Sample>> seen_;  ///< first, last
};

/// One instance of a TP degree; measures it at clocks and loads.
class Bench {
 public:
  Bench(const ProfiledEngine& engine, int tp, const engine::StepModel& model, const LoadProfilerOptions& options)
      : engine_(engine), model_(model), options_(options) {
    auto spec = std::make_shared<InstanceSpec>();
    spec->gpu = engine.gpu;
    spec->llm = engine.llm;
    spec->tensor_parallel = tp;
    spec_ = std::move(spec);
  }

  /// Shares of lone requests within the limits of TTFT and of TBT.
  [[nodiscard]] Quantiles lone_kept(const ClassRequests& of, MegaHertz clock) const {
    const Measured lone = *measure(of, clock, {1.0, 1.0}, kLone, options_.requests);
    return {lone.ttft_kept, lone.tbt_kept};
  }

  [[nodiscard]] plan::ShardProfile profile(const ClassRequests& of, const Quantiles& held, MegaHertz clock,
                                           double guess) const {
    plan::ShardProfile made{spec_->tensor_parallel, clock, {}};
    const bool whole = held.ttft >= options_.quantile && held.tbt >= options_.quantile;
    plan::LoadPoint idle = measure(of, clock, held, kLone, whole ? kLoneRequests : options_.requests)->point;
    idle.load_per_s = 0.0;
    idle.power = to_watts(model_.idle_power(clock));
    made.points.push_back(idle);
    const auto within = [&](const plan::LoadPoint& p) { return p.ttft <= of.limits.ttft && p.tbt <= of.limits.tbt; };
    std::map<double, Measured> measured;
    const auto at = [&](double load) -> const Measured* {
      auto found = measured.find(load);
      if (found == measured.end()) {
        const auto point = measure_filled(of, clock, held, load);
        if (!point) return nullptr;
        found = measured.emplace(load, *point).first;
      }
      return &found->second;
    };
    if (!within(idle)) {
      idle.load_per_s = kLone;
      made.points.push_back(idle);
      return made;
    }
    // Between a load within the limits and one beyond.
    double low = 0.0, high = 0.0;
    for (double load = guess; low == 0.0 || high == 0.0;) {
      const auto* point = at(load);
      const bool good = point != nullptr && within(point->point);
      (good ? low : high) = load;
      if (load < kLone) break;
      load = good ? load * 1.5 : load / 1.5;
    }
    while (low > 0.0 && high > low * kTolerance) {
      const double load = std::sqrt(low * high);
      const auto* point = at(load);
      (point != nullptr && within(point->point) ? low : high) = load;
    }
    if (low == 0.0) {  // lone requests are within, two at once not
      idle.load_per_s = kLone;
      made.points.push_back(idle);
      return made;
    }
    std::vector<double> loads = {0.0};
    for (const double share : options_.shares) loads.push_back(share * low);
    loads.back() = low;
    for (std::size_t i = 1; i < loads.size(); ++i) at(loads[i]);
    const auto power_at = [&](double load) { return load == 0.0 ? made.points[0].power : at(load)->point.power; };
    const double rise = std::max(1.0, (power_at(low) - power_at(0.0)).value());
    for (int halving = 0; halving < options_.halvings; ++halving) {
      for (std::size_t i = 0; i + 1 < loads.size(); ++i) {
        if ((power_at(loads[i + 1]) - power_at(loads[i])).value() <= options_.bend * rise) continue;
        const double middle = (loads[i] + loads[i + 1]) / 2.0;
        if (at(middle) != nullptr) loads.insert(loads.begin() + static_cast<std::ptrdiff_t>(++i), middle);
      }
    }
    if (clock == options_.clocks.back()) {
      if (const double useful = most_useful(low, high, at); useful > low) loads.insert(loads.end(), {high, useful});
    }
    for (std::size_t i = 1; i < loads.size(); ++i) {
      if (loads[i] <= loads[i - 1]) continue;
      plan::LoadPoint point = at(loads[i])->point;
      // The same arrivals denser: what falls with the load is noise of the quantile.
      point.ttft = std::max(point.ttft, made.points.back().ttft);
      point.tbt = std::max(point.tbt, made.points.back().tbt);
      made.points.push_back(point);
    }
    return made;
  }

 private:
  struct Measured {
    plan::LoadPoint point;
    double kept, ttft_kept, tbt_kept;  ///< shares of requests
    Span mean_e2e;
  };

  /// Beyond the limits more and more requests miss them: the load from which on fewer are kept a second, not more.
  template <typename At>
  static double most_useful(double low, double high, const At& at) {
    double best = low, kept_per_s = low * at(low)->kept;
    int worse = 0;
    for (double load = high; worse < 2; load *= kBeyond) {
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

  /// With more requests as long as a measurement is short for the answers that it found: what loads a batch slowly
  /// looks light in the beginning.
  [[nodiscard]] std::optional<Measured> measure_filled(const ClassRequests& of, MegaHertz clock, const Quantiles& held,
                                                       double load_per_s) const {
    const std::int64_t most = kLongest * options_.requests;
    for (std::int64_t requests = options_.requests;;) {
      auto found = measure(of, clock, held, load_per_s, requests);
      if (!found) return found;
      const double wanted = load_per_s * kAnswers * found->mean_e2e.seconds();
      if (static_cast<double>(requests) >= wanted || requests >= most) return found;
      requests = std::min(most, std::max(2 * requests, static_cast<std::int64_t>(std::ceil(wanted))));
    }
  }

  /// None: not all of them could be served.
  [[nodiscard]] std::optional<Measured> measure(const ClassRequests& of, MegaHertz clock, const Quantiles& held,
                                                double load_per_s, std::int64_t requests) const {
    auto rows = arrivals_of(of, requests * options_.instances, load_per_s * options_.instances);
    const Instant from = rows[rows.size() / 5].arrival;
    const Instant until = rows.back().arrival;
    workload::ListSource source(std::move(rows));
    Watcher watcher(of, from, until);
    sim::SimulationSetup setup;
    setup.engine = engine_.engine;
    for (const auto& [prompt, output] : of.lengths) setup.max_tokens = std::max(setup.max_tokens, output);
    setup.source = &source;
    setup.sink = &watcher;
    setup.sample_period = std::max(Span::ms(100), (until - from) / 200);
    for (int i = 0; i < options_.instances; ++i) {
      sim::InstanceSetup instance;
      instance.id = InstanceId(i);
      instance.spec = spec_;
      instance.model = &model_;
      instance.initial_clock = clock;
      setup.instances.push_back(std::move(instance));
    }
    (void)sim::simulate(std::move(setup));
    const auto power = watcher.power();
    if (watcher.unfinished() || !power) return std::nullopt;
    return Measured{{load_per_s, *power, watcher.ttft(held.ttft), watcher.tbt(held.tbt)},
                    watcher.kept(),
                    watcher.ttft_kept(),
                    watcher.tbt_kept(),
                    watcher.mean_e2e()};
  }

  const ProfiledEngine& engine_;
  const engine::StepModel& model_;
  const LoadProfilerOptions& options_;
  std::shared_ptr<const InstanceSpec> spec_;
};

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

/// What a class is held to: the quantile asked for or, where no configuration keeps that of lone requests, as many
/// points below the most that one keeps as the quantile lies below all. Where that is less than half, the quantile
/// asked for: there is nothing to hold plans to.
Quantiles held_to(const ClassRequests& of, const std::vector<Bench>& benches, const LoadProfilerOptions& options) {
  Quantiles most{0.0, 0.0};
  for (const Bench& bench : benches) {
    const Quantiles kept = bench.lone_kept(of, options.clocks.back());
    most = {std::max(most.ttft, kept.ttft), std::max(most.tbt, kept.tbt)};
  }
  const auto held = [&](double kept) {
    const double within_reach = kept - (1.0 - options.quantile);
    return kept >= options.quantile || within_reach < 0.5 ? options.quantile : within_reach;
  };
  return {held(most.ttft), held(most.tbt)};
}

void note(std::vector<std::string>& provenance, const std::string& name, const char* what, double held,
          double quantile) {
  if (held >= quantile) return;
  provenance.push_back(fmt::format("class {}: {} of {:.1f} % of requests, no configuration keeps {:g} %", name, what,
                                   100 * held, 100 * quantile));
}

}  // namespace

std::vector<MegaHertz> clocks_to_profile(const GpuSpec& gpu) {
  constexpr double kHighest = 1980.0;
  const auto supported = supported_clocks(gpu);
  std::vector<MegaHertz> clocks;
  for (const double mhz : {810.0, 1005.0, 1200.0, 1395.0, 1605.0, 1800.0, kHighest}) {
    const double wanted = mhz / kHighest * gpu.clock_max.value();
    const auto away = [wanted](MegaHertz clock) { return std::abs(clock.value() - wanted); };
    const auto nearest = std::ranges::min(supported, {}, away);
    if (clocks.empty() || clocks.back() < nearest) clocks.push_back(nearest);
  }
  return clocks;
}

Result<plan::LoadTable> profile_loads(const ProfiledEngine& engine, const std::vector<ClassRequests>& classes,
                                      const LoadProfilerOptions& options,
                                      const std::function<void(const std::string&)>& progress) {
  plan::LoadTable table;
  table.llm = engine.llm.name;
  table.gpu = engine.gpu.name;
  table.provenance = {"made by: wattle profile, simulated",
                      fmt::format("latencies: p{:g} of {} requests a load", options.quantile * 100, options.requests)};
  if (options.instances > 1) table.provenance.push_back(fmt::format("measured: {} instances", options.instances));
  for (const ClassRequests& of : classes) {
    if (of.lengths.empty()) return bad_input(of.name, "has no requests to profile it with");
    table.classes.push_back(head_of(of));
  }
  std::vector<std::pair<int, engine::StepModel>> models;  // by TP
  for (const int tp : options.tps) {
    auto model = config::make_step_model(engine.gpu, engine.llm, tp, engine.engine);
    if (model) {
      models.emplace_back(tp, std::move(*model));
      continue;
    }
    table.provenance.push_back(fmt::format("left out: TP{}, {}", tp, model.error().what));
    if (tp == options.tps.back() && models.empty()) return std::unexpected(model.error());
  }
  std::vector<Bench> benches;
  for (const auto& [tp, model] : models) benches.emplace_back(engine, tp, model, options);
  std::vector<Quantiles> held;
  for (const ClassRequests& of : classes) {
    held.push_back(held_to(of, benches, options));
    note(table.provenance, of.name, "TTFT", held.back().ttft, options.quantile);
    note(table.provenance, of.name, "TBT", held.back().tbt, options.quantile);
  }
  for (std::size_t b = 0; b < benches.size(); ++b) {
    for (std::size_t c = 0; c < classes.size(); ++c) {
      double guess = 1.0;
      for (const MegaHertz clock : options.clocks) {
        table.classes[c].profiles.push_back(benches[b].profile(classes[c], held[c], clock, guess));
        const double most = plan::most_load(table.classes[c].profiles.back(), classes[c].limits).value_or(0.0);
        if (most > kLone) guess = most;
      }
      if (progress) {
        progress(fmt::format("{} at TP{}: up to {:.3g} requests/s", classes[c].name, models[b].first, guess));
      }
    }
  }
  return table;
}

}  // namespace wattle::calibrate
