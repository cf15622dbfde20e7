// Published facts that are no rows of a data set: ratios and optima from papers' text and figures.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "fidelity/baselines.h"
#include "fidelity/benchmark_run.h"
#include "fidelity/experiment.h"
#include "fidelity/step_value.h"

namespace wattle::fidelity {
namespace {

using engine::HardwareProfile;
using engine::StepModel;

StepValue step(const StepModel& model, const StepShape& shape, std::int32_t mhz) {
  return step_value(model, shape, MegaHertz(mhz));
}

/// The locked clock of least energy per step, among every third of the card's.
double optimum_mhz(const StepModel& model, const StepShape& shape) {
  double best = 1e300;
  std::int32_t at = 0;
  for (std::int32_t f = model.gpu().clock_min.value(); f <= model.gpu().clock_max.value(); f += 45) {
    const double joules = step(model, shape, f).joules();
    if (joules < best) {
      best = joules;
      at = f;
    }
  }
  return at;
}

/// The lowest clock at which the card reaches its power limit, or its highest clock.
double limit_mhz(const StepModel& model, const StepShape& shape, double share) {
  for (std::int32_t f = model.gpu().clock_min.value(); f <= model.gpu().clock_max.value();
       f += model.gpu().clock_step.value()) {
    if (step(model, shape, f).watts >= share * model.gpu().tdp.value() * model.gpus()) return f;
  }
  return model.gpu().clock_max.value();
}

/// One instance of the H100 clock sweep, requests a second.
Measured sweep(const StepModel& model, double rate, std::int32_t mhz) {
  Load load;
  load.rate_per_s = rate;
  load.requests = 200;
  load.input_mean = 1023;
  load.output_mean = 99;
  load.clock = MegaHertz(mhz);
  return run(model, clock_sweep_engine(), load);
}

/// The clock of least energy per request among those of the sweep, each at the highest rate that meets the sweep's
/// objectives (p99: 0.5 s to the first token, 50 ms between tokens).
double request_optimum_mhz(const StepModel& model) {
  double best = std::numeric_limits<double>::infinity();
  double at = 0.0;
  for (const std::int32_t mhz : {780, 1080, 1380, 1680, 1830}) {
    double low = 0.0;
    double high = 20.0;
    for (int halving = 0; halving < 8; ++halving) {
      const double rate = (low + high) / 2.0;
      const Measured m = sweep(model, rate, mhz);
      if (m.ttft_p99_s > 0.5 || m.tpot_p99_s > 0.050) {
        high = rate;
        continue;
      }
      low = rate;
      const double joules = m.power_w / rate;  // per request
      if (joules >= best) continue;
      best = joules;
      at = mhz;
    }
  }
  return at;
}

/// Exponent e of quantity ~ clock^e between the ends of the sweep, each clock at an eighth of its own highest rate, the
/// lowest loads of the sweep: at equal rates its rows give -1.1 for TPOT.
constexpr double kEighthAt780 = 0.513;
constexpr double kEighthAt1830 = 1.751;
double exponent(double at_780, double at_1830) { return std::log(at_1830 / at_780) / std::log(1830.0 / 780.0); }

enum class Engine : std::uint8_t {
  Benchmark,
  Greedy,     ///< taken from runs without sampling
  Throttllem  ///< Triton and TensorRT-LLM: with the CPU times that Table II and the lone token gap show
};

engine::EngineOptions options_of(Engine engine, const Catalog& catalog) {
  switch (engine) {
    case Engine::Benchmark:
      return benchmark_engine();
    case Engine::Greedy:
      return greedy_engine();
    case Engine::Throttllem:
      return catalog.throttllem;
  }
  return benchmark_engine();
}

struct Fact {
  const char* row;
  const char* gpu;
  const char* llm;
  std::int32_t tp;
  const char* quantity;
  double measured;
  bool fitted;
  double (*value)(const StepModel&);
  Engine engine = Engine::Benchmark;
};

// A decode batch in the middle of the range of the paper's runs, and a full prompt batch.
constexpr StepShape kDecode8b{160, 160 * 400, 0, 0, 0};
constexpr StepShape kPrompts{0, 0, 8, 8192, 8 * 1024 * 512};
constexpr StepShape kDecode32b{128, 128 * 600, 0, 0, 0};
constexpr StepShape kDecode13b{64, 64 * 500, 0, 0, 0};
// Halfway through throttLL'eM's queries of one prompt token and 1,024 generated ones.
constexpr StepShape kHalfway32{32, 32 * 512, 0, 0, 0};
constexpr StepShape kHalfway1{1, 512, 0, 0, 0};

const Fact kFacts[] = {
    {"VoltanaLLM section 2: decode ITL at 1410 against 1005 MHz", "a100-80g", "llama-3.1-8b", 1, "time_ratio", 0.80,
     true, [](const StepModel& m) { return step(m, kDecode8b, 1410).seconds / step(m, kDecode8b, 1005).seconds; }},
    {"VoltanaLLM section 2: decode energy at 1410 against 1005 MHz", "a100-80g", "llama-3.1-8b", 1, "energy_ratio",
     1.50, true,
     [](const StepModel& m) { return step(m, kDecode8b, 1410).joules() / step(m, kDecode8b, 1005).joules(); }},
    {"VoltanaLLM section 3.1: decode stays within TDP at 1410 MHz", "a100-80g", "llama-3.1-8b", 1, "effective_mhz",
     1410, true,
     [](const StepModel& m) {
       return static_cast<double>(m.mixed(kDecode8b, MegaHertz(1410)).effective_clock.value());
     }},
    {"VoltanaLLM figure 4: prefill power at 1305 MHz (reaches TDP)", "a100-80g", "llama-3.1-8b", 1, "power_w", 396.0,
     true, [](const StepModel& m) { return step(m, kPrompts, 1305).watts; }},
    {"data sheet collection: idle with a context, 1410 MHz", "a100-80g", "llama-3.1-8b", 1, "idle_power_w", 68.0, true,
     [](const StepModel& m) { return to_watts(m.idle_power(MegaHertz(1410))).value(); }},
    {"data sheet collection: idle with a context, parked at 210 MHz", "a100-80g", "llama-3.1-8b", 1, "idle_power_w",
     55.0, true, [](const StepModel& m) { return to_watts(m.idle_power(MegaHertz(210))).value(); }},
    {"VoltanaLLM figure 4: where TDP holds a prefill locked at 1410 MHz", "a100-80g", "llama-3.1-8b", 1,
     "effective_mhz", 1305, true,
     [](const StepModel& m) {
       return static_cast<double>(m.mixed(kPrompts, MegaHertz(1410)).effective_clock.value());
     }},
    {"VoltanaLLM: clock of least decode energy", "a100-80g", "llama-3.1-8b", 1, "optimum_mhz", 1005, false,
     [](const StepModel& m) { return optimum_mhz(m, kDecode8b); }},
    {"VoltanaLLM: clock of least prefill energy", "a100-80g", "llama-3.1-8b", 1, "optimum_mhz", 1005, false,
     [](const StepModel& m) { return optimum_mhz(m, kPrompts); }},
    {"throttLL'eM: clock of least energy, 13B TP2", "a100-40g", "llama-2-13b", 2, "optimum_mhz", 1050, false,
     [](const StepModel& m) { return optimum_mhz(m, kDecode13b); }, Engine::Throttllem},
    {"throttLL'eM section III: energy per token at 1050 against 1410 MHz, 13B TP2, 32 requests", "a100-80g",
     "llama-2-13b", 2, "energy_ratio", 1.0 / 1.374, true,
     [](const StepModel& m) { return step(m, kHalfway32, 1050).joules() / step(m, kHalfway32, 1410).joules(); },
     Engine::Throttllem},
    {"throttLL'eM section III: TBT at 1050 against 1410 MHz, 13B TP2, 32 requests", "a100-80g", "llama-2-13b", 2,
     "time_ratio", 1.0541, false,
     [](const StepModel& m) { return step(m, kHalfway32, 1050).seconds / step(m, kHalfway32, 1410).seconds; },
     Engine::Throttllem},
    {"throttLL'eM section V-C: TBT at its highest (32 requests, 210 MHz) against its lowest (alone, 1410 MHz), 13B TP2",
     "a100-40g", "llama-2-13b", 2, "time_ratio", 2.0, false,
     [](const StepModel& m) { return step(m, kHalfway32, 210).seconds / step(m, kHalfway1, 1410).seconds; },
     Engine::Throttllem},
    {"throttLL'eM section V-C: lowest TBT (alone, 1410 MHz), 13B TP2; the scenarios' step_gap_ms was chosen by it",
     "a100-40g", "llama-2-13b", 2, "time_ms", 15.0, false,
     [](const StepModel& m) { return 1e3 * step(m, kHalfway1, 1410).seconds; }, Engine::Throttllem},
    {"GreenServe: clock of least prefill energy, 32B", "gh200-96g", "qwen3-32b", 1, "optimum_mhz", 1095, false,
     [](const StepModel& m) { return optimum_mhz(m, kPrompts); }},
    {"GreenServe: clock of least decode energy, 32B", "gh200-96g", "qwen3-32b", 1, "optimum_mhz", 1395, false,
     [](const StepModel& m) { return optimum_mhz(m, kDecode32b); }},
    {"DynamoLLM section III: 8 x H100 idle, Llama-2-70B loaded, no lock", "h100", "llama-2-70b", 8, "idle_power_w", 880,
     false, [](const StepModel& m) { return to_watts(m.idle_power(m.gpu().clock_max)).value(); }},
    {"H100 sweep: TPOT ~ f^e, TP8, 780 to 1830 MHz", "h100", "llama-3-70b", 8, "exponent", -0.6, false,
     [](const StepModel& m) {
       return exponent(sweep(m, kEighthAt780, 780).tpot_p99_s, sweep(m, kEighthAt1830, 1830).tpot_p99_s);
     },
     Engine::Greedy},
    {"H100 sweep: TTFT ~ f^e, TP8, 780 to 1830 MHz", "h100", "llama-3-70b", 8, "exponent", -0.5, false,
     [](const StepModel& m) {
       return exponent(sweep(m, kEighthAt780, 780).ttft_p99_s, sweep(m, kEighthAt1830, 1830).ttft_p99_s);
     },
     Engine::Greedy},
    {"H100 sweep: power at 5 requests/s and 1080 MHz, 1629 + 85 x rate", "h100", "llama-3-70b", 8, "power_w", 2054,
     false, [](const StepModel& m) { return sweep(m, 5, 1080).power_w; }, Engine::Greedy},
    {"H100 sweep: power at 5 requests/s and 1830 MHz, 2696 + 139 x rate", "h100", "llama-3-70b", 8, "power_w", 3391,
     false, [](const StepModel& m) { return sweep(m, 5, 1830).power_w; }, Engine::Greedy},
    {"H100 sweep: clock of least energy per request, TP8", "h100", "llama-3-70b", 8, "optimum_mhz", 1080, false,
     [](const StepModel& m) { return request_optimum_mhz(m); }, Engine::Greedy},
    {"H100 sweep: clock of least energy per request, TP4", "h100", "llama-3-70b", 4, "optimum_mhz", 1380, false,
     [](const StepModel& m) { return request_optimum_mhz(m); }, Engine::Greedy},
    {"H100 sweep: clock of least energy per request, TP2", "h100", "llama-3-70b", 2, "optimum_mhz", 1380, false,
     [](const StepModel& m) { return request_optimum_mhz(m); }, Engine::Greedy},
    {"GreenServe: lowest clock at which prefill reaches 900 W", "gh200-96g", "qwen3-32b", 1, "limit_mhz", 1600, false,
     [](const StepModel& m) { return limit_mhz(m, kPrompts, 0.985); }},
};

}  // namespace

Result<void> collect_facts(const std::string&, const Catalog& catalog, Collection& to) {
  for (const Fact& fact : kFacts) {
    const GpuSpec* gpu = catalog.gpu(fact.gpu);
    const LlmSpec* llm = catalog.llm(fact.llm);
    if (gpu == nullptr || llm == nullptr) continue;
    Experiment e;
    e.set = std::string("facts/") + fact.gpu;
    e.row = fact.row;
    e.gpu = fact.gpu;
    e.fitted = fact.fitted;
    e.quantities = {{fact.quantity, fact.measured}};
    e.tp = fact.tp;
    e.simulate = [gpu, llm, &fact, engine = options_of(fact.engine, catalog)](const HardwareProfile& profile,
                                                                              const Rival&) -> Result<Simulated> {
      const Result<StepModel> model = StepModel::make(*gpu, *llm, fact.tp, profile, engine);
      if (!model) return std::unexpected(model.error());
      return Simulated{{fact.value(*model)}, model->asked()};
    };
    to.experiments.push_back(std::move(e));
  }
  return {};
}

}  // namespace wattle::fidelity
