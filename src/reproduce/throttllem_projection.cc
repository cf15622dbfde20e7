// Figure 7 of throttLL'eM: the projection against what then happened.
#include <fmt/core.h>

#include <cmath>
#include <memory>

#include "base/random.h"
#include "config/locate.h"
#include "experiment/simulate.h"
#include "policy/throttllem/throttllem.h"
#include "reproduce/throttllem.h"

namespace wattle::reproduce::throttllem {

namespace {

constexpr int kTraces = 20;

/// Queries spawned at once, lengths uniform.
std::vector<workload::TraceRow> micro_trace(std::size_t requests, RandomStream& random) {
  std::vector<workload::TraceRow> rows;
  for (std::size_t i = 0; i < requests; ++i) {
    rows.push_back({Instant(), 16 + static_cast<std::int32_t>(random.below(1000)),
                    16 + static_cast<std::int32_t>(random.below(600))});
  }
  return rows;
}

struct Iteration {
  Instant start;
  std::int32_t batch = 0;
  std::int64_t kv_tokens = 0;
};

/// From the first iteration after all prompts were computed; same index, same iteration.
struct Record {
  std::vector<Iteration> projected;
  std::vector<Iteration> actual;
};

/// Keeps the clock and compares each iteration with the scoreboard's projection when the last query was admitted.
class Observer final : public policy::FrequencyPolicy {
 public:
  Observer(std::shared_ptr<policy::Throttllem> policy, MegaHertz clock, std::size_t requests, Record& record)
      : policy_(std::move(policy)), clock_(clock), requests_(requests), record_(record) {}

  ClockDecision choose(const InstanceView& view, Instant now) override {
    const auto& shape = view.step.shape;
    if (!shape.idle() && view.step.waiting_requests == 0) {
      policy::Scoreboard board = *policy_->board(view.id);
      board.advance(view.step.sequence);
      // The projection is complete once all requests are admitted and every prompt is computed: only decodes follow.
      if (record_.projected.empty() && board.size() == requests_ && shape.prefill_tokens == 0) project(board, view);
      if (!record_.projected.empty()) {
        const auto j = static_cast<std::size_t>(view.step.sequence - first_);
        if (j >= record_.actual.size()) record_.actual.resize(j + 1);
        record_.actual[j] = {now, shape.decode_requests, shape.decode_kv_tokens};
      }
    }
    return {clock_, "held", Hold{}};
  }

  void project(const policy::Scoreboard& board, const InstanceView& view) {
    first_ = view.step.sequence;
    Instant at = view.step.start;
    board.walk([&](const policy::Stretch& stretch, std::size_t, std::size_t) {
      for (std::int64_t j = stretch.from; j < stretch.until; ++j) {
        Iteration next{at, stretch.requests, stretch.kv_tokens_at_from + (j - stretch.from) * stretch.requests};
        StepShape shape;
        shape.decode_requests = next.batch;
        shape.decode_kv_tokens = next.kv_tokens;
        at += view.spec->beliefs.latency->step_time(shape, clock_);
        record_.projected.push_back(next);
      }
      return true;
    });
  }

 private:
  std::shared_ptr<policy::Throttllem> policy_;
  MegaHertz clock_;
  std::size_t requests_;
  Record& record_;
  std::int64_t first_ = 0;
};

struct Errors {
  double batch = 0.0;
  double kv = 0.0;
  double drift_ms = 0.0;  ///< of the time of an iteration, per iteration elapsed
  std::int64_t iterations = 0;
};

void compare(const Record& record, Errors& errors) {
  // Iterations beyond the shorter of the two count with an empty batch.
  const auto n = std::min(record.projected.size(), record.actual.size());
  for (std::size_t j = 0; j < n; ++j) {
    const auto& p = record.projected[j];
    const auto& a = record.actual[j];
    if (a.batch == 0) continue;  // not reported
    errors.batch += std::abs(static_cast<double>(p.batch - a.batch)) / a.batch;
    errors.kv += std::abs(static_cast<double>(p.kv_tokens - a.kv_tokens)) / static_cast<double>(a.kv_tokens);
    if (j > 0) errors.drift_ms += std::abs((p.start - a.start).millis()) / static_cast<double>(j);
    ++errors.iterations;
  }
}

Result<Errors> measure(const Engine& engine, double error_p95) {
  Errors errors;
  RandomStream random(1, "micro-traces");
  const auto loaded = config::load_scenario(engine.scenario, {}, config::project());
  if (!loaded) return std::unexpected(loaded.error());
  // M is collected and trained with the first run; the others borrow it.
  const auto overrides = config::parse_overrides({"predictor.form=ips", fmt::format("length.error_p95={}", error_p95)});
  auto recipe = systems::load_recipe("throttllem", *overrides, config::project());
  if (!recipe) return std::unexpected(recipe.error());
  std::shared_ptr<const LatencyModel> trained;
  const auto clocks = supported_clocks(loaded->gpus.front());
  for (int i = 0; i < kTraces; ++i) {
    auto scenario = *loaded;
    // No queue: no objective, and few enough requests for the cache.
    scenario.scenario.slo.e2e = Span::s(100'000);
    scenario.scenario.slo.tbt = Span::s(100);
    scenario.scenario.seed = static_cast<std::uint64_t>(i) + 1;
    const auto requests = 2 + random.below(static_cast<std::uint64_t>(engine.kv_blocks) / 40);
    const MegaHertz clock = clocks[random.below(clocks.size())];
    auto run = experiment::prepare_run(scenario, *recipe, config::data_dir());
    if (!run) return std::unexpected(run.error());
    run->source = std::make_unique<workload::ListSource>(micro_trace(requests, random));
    run->setup.source = run->source.get();
    auto& instance = run->setup.instances.front();
    if (!trained) {
      trained = run->beliefs.front();
      recipe->recipe.predictor.form = "linear";
      policy::ThrottllemClockOptions two;
      two.clocks = {clocks.front(), clocks.back()};
      recipe->recipe.decode_frequency.options = two;
    }
    InstanceSpec spec = *instance.spec;
    spec.beliefs.latency = trained.get();
    instance.spec = std::make_shared<const InstanceSpec>(std::move(spec));
    instance.initial_clock = clock;
    Record record;
    const auto admission = std::dynamic_pointer_cast<policy::Throttllem>(run->setup.policies.admission.policy);
    instance.frequency.policy = std::make_shared<Observer>(admission, clock, requests, record);
    (void)sim::simulate(std::move(run->setup));
    compare(record, errors);
  }
  const auto n = static_cast<double>(std::max<std::int64_t>(errors.iterations, 1));
  return Errors{100.0 * errors.batch / n, 100.0 * errors.kv / n, errors.drift_ms / n, errors.iterations};
}

}  // namespace

Result<Section> projection() {
  Section section;
  section.source = "Figure 7 and Section V-C";
  section.note = fmt::format(
      "Simulated: {} micro-traces an engine, each at a random clock with random lengths, all queries at once; every "
      "iteration compared with what was projected when the last prompt had been computed. KV in tokens. The paper's "
      "lengths are known (error 0 %); its errors come from the time between submission and admission.",
      kTraces);
  for (const double error : {0.0, 0.15, 0.30}) {
    Errors mean;
    for (const Engine& engine : kEngines) {
      const auto got = measure(engine, error);
      if (!got) return std::unexpected(got.error());
      constexpr double kShare = 1.0 / static_cast<double>(kEngines.size());
      mean.batch += got->batch * kShare;
      mean.kv += got->kv * kShare;
      mean.drift_ms += got->drift_ms * kShare;
    }
    const auto base = fmt::format("fig7/error{:.0f}/", 100.0 * error);
    const auto published = [&](double value) { return error == 0.0 ? std::optional(value) : std::nullopt; };
    section.rows.push_back({base + "batch", "%", published(0.19), mean.batch});
    section.rows.push_back({base + "kv", "%", published(2.26), mean.kv});
    section.rows.push_back({base + "drift", "ms/iteration", published(0.43), mean.drift_ms});
  }
  return section;
}

}  // namespace wattle::reproduce::throttllem
