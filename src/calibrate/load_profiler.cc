#include "calibrate/load_profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "config/make_step_model.h"
#include "sim/simulation.h"

namespace wattle::calibrate {

namespace {

constexpr std::int64_t kLoneRequests = 40;
constexpr double kAnswers = 10.0;     ///< least duration of a measurement, in answers, because batches fill first
constexpr std::int64_t kMost = 6000;  ///< requests, at which it is long enough whatever it found

/// Latencies of what arrives after the first fifth, and mean power from then until the last arrival.
class Watcher final : public journal::Sink {
 public:
  Watcher(const ClassRequests& of, Instant from, Instant until)
      : of_(of), from_(from), until_(until), tally_(of, from) {}
  void outcome(const Outcome& o) override {
    if (o.fate != Fate::Finished) {
      unfinished_ = true;
      return;
    }
    tally_.add(of_.held_to.of(o.request, o.output_tokens), o.request.arrival, o.ttft(), o.tbt(), o.e2e());
  }
  void sample(const journal::Sample& s) override {
    if (s.at < from_ || s.at > until_) return;
    auto& [first, last] = seen_[s.instance.value()];
    if (!first) first = s;
    last = s;
  }
  [[nodiscard]] bool unfinished() const { return unfinished_; }
  /// Mean power of one of `workers`.
  [[nodiscard]] std::optional<Watts> power(int workers) const {
    if (seen_.empty()) return std::nullopt;
    Watts sum;
    for (const auto& [id, span] : seen_) {
      const auto& [first, last] = span;
      if (last.at <= first->at) return std::nullopt;
      sum += Watts((last.energy - first->energy).joules().value() / (last.at - first->at).seconds());
    }
    return sum / static_cast<double>(workers);
  }
  [[nodiscard]] const LatencyTally& tally() const { return tally_; }

 private:
  const ClassRequests& of_;
  Instant from_, until_;
  bool unfinished_ = false;
  LatencyTally tally_;
  std::map<std::int32_t, std::pair<std::optional<journal::Sample>, journal::Sample>> seen_;  ///< first, last
};

/// An instance of a worker: its only one, or one of a pair.
struct Part {
  InstanceSpec spec;
  const engine::StepModel* model;
  std::optional<MegaHertz> clock;  ///< none: the clock that is being measured
  [[nodiscard]] MegaHertz at(MegaHertz asked) const { return clock.value_or(asked); }
};

Part part_of(const ProfiledEngine& engine, int tp, const engine::StepModel& model) {
  InstanceSpec spec;
  spec.gpu = engine.gpu;
  spec.llm = engine.llm;
  spec.tensor_parallel = tp;
  return {std::move(spec), &model, std::nullopt};
}

/// Simulated workers of one kind: instances of one TP degree, or pairs.
class Bench final : public LoadBench {
 public:
  /// `parts`: one, or a pair's prefill and decode instance.
  Bench(const engine::EngineOptions& engine, std::vector<Part> parts, const engine::LinkOptions& link,
        const LoadProfilerOptions& options)
      : engine_(engine), parts_(std::move(parts)), link_(link), options_(options) {}

  [[nodiscard]] int tp() const override { return parts_.front().spec.tensor_parallel; }
  [[nodiscard]] double first_guess(const ClassRequests&) override { return 1.0; }
  [[nodiscard]] std::optional<Watts> idle_power(MegaHertz clock) override {
    Watts sum;
    for (const Part& part : parts_) sum += to_watts(part.model->idle_power(part.at(clock)));
    return sum;
  }
  [[nodiscard]] std::optional<MeasuredLoad> lone(const ClassRequests& of, MegaHertz clock, const HeldQuantiles& held,
                                                 bool few) override {
    return simulate(of, clock, held, kLoneLoad, few ? kLoneRequests : options_.requests);
  }
  /// With more requests as long as a measurement is short for the answers that it found: what loads a batch slowly
  /// looks light in the beginning.
  [[nodiscard]] std::optional<MeasuredLoad> measure(const ClassRequests& of, MegaHertz clock, const HeldQuantiles& held,
                                                    double load_per_s) override {
    const std::int64_t most = std::max(options_.requests, kMost);
    for (std::int64_t requests = options_.requests;;) {
      auto found = simulate(of, clock, held, load_per_s, requests);
      if (!found) return found;
      const double wanted = load_per_s * kAnswers * found->mean_e2e.seconds();
      if (static_cast<double>(requests) >= wanted || requests >= most) return found;
      requests = std::min(most, std::max(2 * requests, static_cast<std::int64_t>(std::ceil(wanted))));
    }
  }

 private:
  /// None: not all of them could be served.
  [[nodiscard]] std::optional<MeasuredLoad> simulate(const ClassRequests& of, MegaHertz clock,
                                                     const HeldQuantiles& held, double load_per_s,
                                                     std::int64_t requests) const {
    auto rows = arrivals_of(of, requests * options_.instances, load_per_s * options_.instances);
    const Instant from = rows[rows.size() / 5].arrival;
    const Instant until = rows.back().arrival;
    workload::ListSource source(std::move(rows));
    Watcher watcher(of, from, until);
    sim::SimulationSetup setup;
    setup.engine = engine_;
    setup.link = link_;
    for (const auto& [prompt, output] : of.lengths) setup.max_tokens = std::max(setup.max_tokens, output);
    setup.source = &source;
    setup.sink = &watcher;
    setup.sample_period = std::max(Span::ms(100), (until - from) / 200);
    const auto pairs = static_cast<std::int32_t>(parts_.size());
    for (std::int32_t i = 0; i < options_.instances * pairs; ++i) {
      const Part& part = parts_[static_cast<std::size_t>(i % pairs)];
      InstanceSpec spec = part.spec;
      if (spec.role == Role::Prefill) spec.decode = InstanceId(i + 1);
      sim::InstanceSetup instance;
      instance.id = InstanceId(i);
      instance.spec = std::make_shared<const InstanceSpec>(std::move(spec));
      instance.model = part.model;
      instance.initial_clock = part.at(clock);
      setup.instances.push_back(std::move(instance));
    }
    (void)sim::simulate(std::move(setup));
    const auto power = watcher.power(options_.instances);
    if (watcher.unfinished() || !power) return std::nullopt;
    return watcher.tally().measured(load_per_s, *power, held);
  }

  const engine::EngineOptions& engine_;
  std::vector<Part> parts_;
  engine::LinkOptions link_;
  const LoadProfilerOptions& options_;
};

/// The header of a table, without its profiles.
plan::LoadTable table_of(std::string llm, std::string gpu, const LoadProfilerOptions& options) {
  plan::LoadTable table;
  table.llm = std::move(llm);
  table.gpu = std::move(gpu);
  table.provenance = {"made by: wattle profile, simulated",
                      fmt::format("latencies: p{:g} of {} requests a load", options.quantile * 100, options.requests)};
  if (options.instances > 1) table.provenance.push_back(fmt::format("measured: {} instances", options.instances));
  return table;
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
  plan::LoadTable table = table_of(engine.llm.name, engine.gpu.name, options);
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
  std::vector<Bench> made;
  for (const auto& [tp, model] : models) {
    made.emplace_back(engine.engine, std::vector{part_of(engine, tp, model)}, engine::LinkOptions(), options);
  }
  std::vector<LoadBench*> benches;
  for (Bench& bench : made) benches.push_back(&bench);
  if (auto ok = search_loads(table, benches, classes, options, progress); !ok) return std::unexpected(ok.error());
  return table;
}

Result<plan::LoadTable> profile_pair_loads(const ProfiledPair& pair, const std::vector<ClassRequests>& classes,
                                           LoadProfilerOptions options,
                                           const std::function<void(const std::string&)>& progress) {
  const auto& [prefill, decode, link] = pair;
  options.tps = {prefill.tp};
  options.clocks = {prefill.clock};
  plan::LoadTable table =
      table_of(prefill.engine.llm.name, prefill.engine.gpu.name + "+" + decode.engine.gpu.name, options);
  table.provenance.push_back(fmt::format("pairs: prefill TP{} at {} MHz, decode TP{} at {} MHz", prefill.tp,
                                         prefill.clock.value(), decode.tp, decode.clock.value()));
  std::vector<engine::StepModel> models;
  models.reserve(2);
  std::vector<Part> parts;
  for (const auto* half : {&prefill, &decode}) {
    auto model = config::make_step_model(half->engine.gpu, half->engine.llm, half->tp, half->engine.engine);
    if (!model) return std::unexpected(model.error());
    models.push_back(std::move(*model));
    Part& part = parts.emplace_back(part_of(half->engine, half->tp, models.back()));
    part.spec.role = half == &prefill ? Role::Prefill : Role::Decode;
    part.clock = half->clock;
  }
  Bench bench(prefill.engine.engine, std::move(parts), link, options);
  LoadBench* const benches[] = {&bench};
  if (auto ok = search_loads(table, benches, classes, options, progress); !ok) return std::unexpected(ok.error());
  return table;
}

}  // namespace wattle::calibrate
