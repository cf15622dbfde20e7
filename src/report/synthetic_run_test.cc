#include "report/synthetic_run.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.h"
#include "journal/digest_sink.h"
#include "journal/run_directory.h"
#include "journal/statistics.h"

namespace wattle::report {
namespace {

journal::RunFacts facts_of(const SyntheticRun& run) {
  journal::RunFacts facts;
  facts.scenario = run.scenario;
  facts.recipe = run.recipe;
  facts.driver = run.driver;
  facts.seed = run.seed;
  facts.slo.ttft = Span::ms(600);
  facts.slo.itl = Span::ms(60);
  for (int i = 0; i < run.instances; ++i) {
    InstanceSpec spec;
    spec.role = i < run.instances / 2 ? Role::Prefill : Role::Decode;
    spec.gpu.name = "a100-80g";
    spec.gpu.clock_max = MegaHertz(1410);
    spec.llm.name = "llama-3.1-8b";
    facts.instances.push_back({InstanceId(i), spec});
  }
  return facts;
}

/// Load in [0, 1]: a slow wave, the same for every recipe.
double load_at(double t, double length) { return 0.55 + 0.4 * std::sin(2.0 * std::numbers::pi * t / length * 3.0); }

/// One instance at one moment, with the stretch of work that begins then.
struct Moment {
  journal::Sample sample;
  journal::Stretch stretch;
};
Moment moment_of(const SyntheticRun& run, int i, Instant t, double load, RandomStream& random) {
  const bool prefill = i < run.instances / 2;
  const bool high = load > 0.8 || random.uniform() < 0.06;
  Moment m;
  journal::Sample& s = m.sample;
  s.at = t;
  s.instance = InstanceId(i);
  s.clock = high ? MegaHertz(1410) : run.clock_low;
  const double share = s.clock.value() / 1410.0;
  s.power = to_milliwatts(Watts(70.0 + 280.0 * load * std::pow(share, 1.8) + 12.0 * random.normal()));
  s.decode_requests = prefill ? 0 : static_cast<std::int32_t>(90.0 * load / share + 6.0 * random.uniform());
  s.prefill_tokens = prefill ? static_cast<std::int64_t>(2000.0 * load) : 0;
  s.waiting_requests = prefill ? static_cast<std::int32_t>(3.0 * random.exponential() * load) : 0;
  s.kv_tokens = s.decode_requests * 1300LL;
  m.stretch.instance = s.instance;
  m.stretch.begin = t;
  m.stretch.end = t + run.sample_period / 10 * static_cast<std::int64_t>(2 + 7 * load);
  m.stretch.shape.decode_requests = s.decode_requests;
  m.stretch.shape.prefill_tokens = s.prefill_tokens;
  m.stretch.steps = 30;
  m.stretch.clock = s.clock;
  return m;
}

struct Ended {
  Outcome outcome;
  Span itl;  ///< between any two of its tokens
};
Ended request_of(const SyntheticRun& run, std::int64_t id, Instant arrival, const Slo& slo, RandomStream& random) {
  const double slow = 1410.0 / run.clock_low.value();
  const double load = load_at(arrival.seconds(), run.length.seconds());
  Ended ended;
  Outcome& o = ended.outcome;
  o.request.id = RequestId(id);
  o.request.arrival = arrival;
  o.request.prompt_tokens = static_cast<std::int32_t>(40.0 + 1100.0 * random.exponential());
  o.dispatched = arrival;
  o.prefill_start = arrival + Span::from_seconds(0.02 * load * random.exponential() * slow);
  o.first_token = o.prefill_start + Span::from_seconds(0.03 + o.request.prompt_tokens * 8e-5 * slow);
  o.output_tokens = 1 + static_cast<std::int32_t>(210.0 * random.exponential());
  const double gap = (0.018 + 0.022 * load) * (load > 0.8 ? 1.0 : 0.45 + 0.55 * slow) * (1.0 + 0.06 * random.normal());
  ended.itl = Span::from_seconds(std::max(0.005, gap));
  o.left = o.first_token + ended.itl * (o.output_tokens - 1);
  o.gaps_within_itl = ended.itl <= *slo.itl ? o.output_tokens - 1 : 0;
  o.prefill_instance = InstanceId(static_cast<std::int32_t>(id % (run.instances / 2)));
  o.decode_instance = InstanceId(static_cast<std::int32_t>(run.instances / 2 + id % (run.instances / 2)));
  o.reason = "stop";
  if (random.uniform() < 0.002) {
    o.fate = Fate::Rejected;
    o.reason = "queue full";
    o.first_token = Instant::never();
    o.output_tokens = 0;
    o.gaps_within_itl = 0;
  }
  return ended;
}

}  // namespace

Result<void> write_synthetic_run(const std::string& directory, const SyntheticRun& run) {
  const journal::RunFacts facts = facts_of(run);
  auto writer = journal::RunWriter::open(directory, facts, {.timeseries = run.timeseries});
  if (!writer) return std::unexpected(writer.error());
  journal::RunStatistics statistics(facts.slo);
  journal::DigestSink digest;
  RandomStream random(run.seed, "synthetic");
  const double length = run.length.seconds();

  Picojoules energy;
  double clock_sum = 0.0;
  std::int64_t samples = 0;
  for (Instant t; t < Instant() + run.length; t += run.sample_period) {
    const double load = load_at(t.seconds(), length);
    for (int i = 0; i < run.instances; ++i) {
      const Moment m = moment_of(run, i, t, load, random);
      (*writer)->sample(m.sample);
      energy += energy_over(m.sample.power, run.sample_period);
      clock_sum += m.sample.clock.value();
      ++samples;
      (*writer)->stretch(m.stretch);
    }
  }

  Instant arrival;
  for (std::int64_t id = 0;; ++id) {
    arrival += Span::from_seconds(random.exponential() / run.requests_per_s);
    if (arrival >= Instant() + run.length) break;
    const auto [o, itl] = request_of(run, id, arrival, facts.slo, random);
    if (o.fate == Fate::Finished) statistics.add_gap(itl, o.output_tokens - 1, o.gaps_within_itl);
    journal::DecisionRecord d;
    d.at = arrival;
    d.request = o.request.id;
    d.reason = "always";
    statistics.add_arrivals();
    for (journal::Sink* sink : {static_cast<journal::Sink*>(writer->get()), static_cast<journal::Sink*>(&statistics),
                                static_cast<journal::Sink*>(&digest)}) {
      sink->decision(d);
      sink->outcome(o);
    }
  }

  journal::RunSummary s = statistics.summary();
  s.recipe = run.recipe;
  const Joules total = energy.joules();
  s.energy = {total, total * 0.83, total * 0.17, total * 0.31, total * 0.52, Joules(), Joules()};
  s.meters = run.meters;
  s.by_site.push_back({"north & co", 0, 0, 0, 0, total * 0.25, GramsCo2(1.0), Usd(std::nan(""))});
  s.by_site.push_back({"south", 0, 0, 0, 0, total * 0.75, GramsCo2(3.0), Usd(1.0)});
  s.carbon = GramsCo2(total.value() / 3.6e6 * 400.0);
  s.cost = Usd(run.instances * length / 3600.0 * 2.0);
  s.mean_gpus = run.instances;
  s.clock_mean_mhz = clock_sum / static_cast<double>(samples);
  s.sim = {length, 0.08, 1'234'567, 45'678, 50'000'000};
  s.journal_digest = digest.value();
  s.derive();
  return (*writer)->close(s, statistics.curves());
}

}  // namespace wattle::report
