// One batch sent at once, against the locked clock: EnergyLLM's A100-40G.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "fidelity/benchmark_run.h"
#include "fidelity/experiment.h"
#include "fidelity/published_names.h"
#include "fidelity/serving.h"
#include "fidelity/table.h"

namespace wattle::fidelity {
namespace {

using engine::HardwareProfile;
using engine::StepModel;

constexpr const char* kEnergyLlm = "energyllm-a100-40g";
// With fewer requests neighbours of the published forests smear into each other (its provenance).
constexpr std::int32_t kLeastBatch = 8;

/// Power sampling starts about so long before the batch.
constexpr double kIdleBeforeS = 1.0;

struct Batch {
  double seconds = kNone;
  double watts = kNone;
};

/// ShareGPT's lengths; answers as VoltanaLLM states them, since this source does not.
Batch served(const StepModel& model, std::int32_t batch, MegaHertz clock) {
  Load load;
  load.concurrency = load.requests = batch;
  load.input_mean = 280;
  load.input_cv = 376.0 / 280;
  load.output_mean = 191;
  load.output_cv = 209.0 / 191;
  load.longest_input = load.longest_output = 1024;
  load.clock = clock;
  const Measured m = run(model, greedy_engine(), load);
  const double idle = to_watts(model.idle_power(clock)).value() * kIdleBeforeS;
  return {m.duration_s, (m.energy_j + idle) / (m.duration_s + kIdleBeforeS)};
}

}  // namespace

/// No row of this card is fitted: its factors are those of the 80 GB card, scaled to its memory (relatives.h), so these
/// rows test that scaling.
Result<void> collect_batches(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = data + "/energyllm-a100-40g/clock_sweep.csv";
  const GpuSpec* gpu = catalog.gpu("a100-40g");
  if (!to.found(std::filesystem::exists(file) && gpu != nullptr, kEnergyLlm)) return {};
  const Result<Table> t =
      Table::read(file, {"model"},
                  {clock_mhz("clock_mhz"), requests("batch"), measured("batch_latency_s"), measured("gpu_power_w")});
  if (!t) return std::unexpected(t.error());
  std::map<std::pair<std::string, std::int32_t>, std::size_t> tops;  // the row of the top clock
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const auto clock = lockable_clock(*t, i, "clock_mhz", *gpu);
    if (!clock) return std::unexpected(clock.error());
    if (*clock == gpu->clock_max) tops[{t->text(i, "model"), t->whole(i, "batch")}] = i;
  }
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const auto batch = t->whole(i, "batch");
    const MegaHertz clock(t->whole(i, "clock_mhz"));
    const auto known_llm = published_llm(catalog, t->text(i, "model"));
    const auto top = tops.find({t->text(i, "model"), batch});
    std::string reason;
    if (batch < kLeastBatch) reason = fmt::format("fewer than {} requests", kLeastBatch);
    if (top == tops.end()) reason = fmt::format("no row at {} MHz to compare with", gpu->clock_max.value());
    if (!known_llm) reason = known_llm.error();
    if (!reason.empty()) {
      to.leave_out(kEnergyLlm, reason);
      continue;
    }
    if (clock == gpu->clock_max) continue;  // what the others are compared with
    const LlmSpec& llm = *known_llm;
    Experiment e;
    e.set = "EnergyLLM/a100-40g";
    e.row = fmt::format("{} batch={} mhz={}", llm.name, batch, clock.value());
    e.gpu = gpu->name;
    e.fitted = false;
    e.quantities = {{"time_ratio", t->number(i, "batch_latency_s") / t->number(top->second, "batch_latency_s")},
                    {"power_ratio", t->number(i, "gpu_power_w") / t->number(top->second, "gpu_power_w")}};
    e.simulate = [gpu, llm, batch, clock](const HardwareProfile& profile, const Rival&) -> Result<Simulated> {
      const auto model = StepModel::make(*gpu, llm, 1, profile, greedy_engine());
      if (!model) return std::unexpected(model.error());
      const Batch at = served(*model, batch, clock);
      const Batch at_top = served(*model, batch, gpu->clock_max);
      return Simulated{{at.seconds / at_top.seconds, at.watts / at_top.watts}, model->asked()};
    };
    to.experiments.push_back(std::move(e));
  }
  return {};
}

}  // namespace wattle::fidelity
