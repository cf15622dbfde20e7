// Published facts that are no rows of a data set: ratios and optima from papers' text and figures.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "fidelity/baselines.h"
#include "fidelity/experiment.h"

namespace wattle::fidelity {
namespace {

using engine::HardwareProfile;
using engine::StepModel;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct StepValue {
  double seconds = 0.0;
  double watts = 0.0;
};

StepValue step(const StepModel& model, const StepShape& shape, std::int32_t mhz) {
  const engine::StepCost cost = model.mixed(shape, MegaHertz(mhz));
  return {static_cast<double>(cost.duration) * 1e-9 / (std::int64_t{1} << engine::kTimeFractionBits),
          to_watts(cost.power).value()};
}

/// The locked clock of least energy per step, among every third of the card's.
double optimum_mhz(const StepModel& model, const StepShape& shape) {
  double best = 1e300;
  std::int32_t at = 0;
  for (std::int32_t f = model.gpu().clock_min.value(); f <= model.gpu().clock_max.value(); f += 45) {
    const StepValue v = step(model, shape, f);
    if (v.seconds * v.watts < best) {
      best = v.seconds * v.watts;
      at = f;
    }
  }
  return at;
}

/// The lowest clock at which the card reaches its power limit, or its highest clock.
double limit_mhz(const StepModel& model, const StepShape& shape, double share) {
  for (std::int32_t f = model.gpu().clock_min.value(); f <= model.gpu().clock_max.value();
       f += model.gpu().clock_step.value()) {
    if (step(model, shape, f).watts >= share * model.gpu().tdp.value() * model.tensor_parallel()) return f;
  }
  return model.gpu().clock_max.value();
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
};

// A decode batch in the middle of what the paper's runs hold, and a full prompt batch.
constexpr StepShape kDecode8b{160, 160 * 400, 0, 0, 0};
constexpr StepShape kPrompts{0, 0, 8, 8192, 8 * 1024 * 512};
constexpr StepShape kDecode32b{128, 128 * 600, 0, 0, 0};
constexpr StepShape kDecode13b{64, 64 * 500, 0, 0, 0};

const Fact kFacts[] = {
    {"VoltanaLLM section 2: decode ITL at 1410 against 1005 MHz", "a100-80g", "llama-3.1-8b", 1, "time_ratio", 0.80,
     true, [](const StepModel& m) { return step(m, kDecode8b, 1410).seconds / step(m, kDecode8b, 1005).seconds; }},
    {"VoltanaLLM section 2: decode energy at 1410 against 1005 MHz", "a100-80g", "llama-3.1-8b", 1, "energy_ratio",
     1.50, true,
     [](const StepModel& m) {
       const StepValue high = step(m, kDecode8b, 1410);
       const StepValue low = step(m, kDecode8b, 1005);
       return high.seconds * high.watts / (low.seconds * low.watts);
     }},
    {"VoltanaLLM figure 4: prefill power at 1305 MHz (reaches TDP)", "a100-80g", "llama-3.1-8b", 1, "power_w", 396.0,
     true, [](const StepModel& m) { return step(m, kPrompts, 1305).watts; }},
    {"data sheet collection: idle with a context, 1410 MHz", "a100-80g", "llama-3.1-8b", 1, "idle_power_w", 68.0, true,
     [](const StepModel& m) { return to_watts(m.idle_power(MegaHertz(1410))).value(); }},
    {"data sheet collection: idle with a context, parked at 210 MHz", "a100-80g", "llama-3.1-8b", 1, "idle_power_w",
     55.0, true, [](const StepModel& m) { return to_watts(m.idle_power(MegaHertz(210))).value(); }},
    {"VoltanaLLM: lowest clock at which prefill reaches TDP", "a100-80g", "llama-3.1-8b", 1, "limit_mhz", 1305, false,
     [](const StepModel& m) { return limit_mhz(m, kPrompts, 0.985); }},
    {"VoltanaLLM: clock of least decode energy", "a100-80g", "llama-3.1-8b", 1, "optimum_mhz", 1005, false,
     [](const StepModel& m) { return optimum_mhz(m, kDecode8b); }},
    {"VoltanaLLM: clock of least prefill energy", "a100-80g", "llama-3.1-8b", 1, "optimum_mhz", 1005, false,
     [](const StepModel& m) { return optimum_mhz(m, kPrompts); }},
    {"throttLL'eM: clock of least energy, 13B TP2", "a100-40g", "llama-2-13b", 2, "optimum_mhz", 1050, false,
     [](const StepModel& m) { return optimum_mhz(m, kDecode13b); }},
    {"GreenServe: clock of least prefill energy, 32B", "gh200-96g", "qwen3-32b", 1, "optimum_mhz", 1095, false,
     [](const StepModel& m) { return optimum_mhz(m, kPrompts); }},
    {"GreenServe: clock of least decode energy, 32B", "gh200-96g", "qwen3-32b", 1, "optimum_mhz", 1395, false,
     [](const StepModel& m) { return optimum_mhz(m, kDecode32b); }},
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
    e.simulate = [gpu, llm, &fact](const HardwareProfile& profile, const Rival&) -> std::vector<double> {
      const Result<StepModel> model = StepModel::make(*gpu, *llm, fact.tp, profile, benchmark_engine());
      return {model ? fact.value(*model) : kNone};
    };
    to.experiments.push_back(std::move(e));
  }
  return {};
}

}  // namespace wattle::fidelity
