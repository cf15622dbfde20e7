// Time of work against the GPU's power limit: Zeus's training jobs on an A40.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "fidelity/experiment.h"
#include "fidelity/step_value.h"
#include "fidelity/table.h"

namespace wattle::fidelity {
namespace {

using engine::HardwareProfile;
using engine::StepModel;

/// Prompts, as nothing else here keeps the tensor units as busy as training does.
constexpr StepShape kPrompts{0, 0, 8, 8192, 8 * 1024 * 512};

double seconds_at(const GpuSpec& gpu, const LlmSpec& llm, const HardwareProfile& profile, Watts limit) {
  engine::EngineOptions options = greedy_engine();
  options.power_limit = limit;
  const auto model = StepModel::make(gpu, llm, 1, profile, options);
  return model ? step_value(*model, kPrompts, gpu.clock_max).seconds : kNone;
}

}  // namespace

/// The A40 is the RTX A6000's chip with the same limit. Only transformers (BERT): convolutions wait for data. Ratios to
/// the time at the highest limit, where the jobs draw less than it. Nothing of this card is fitted.
Result<void> collect_power_caps(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = data + "/zeus-power-caps/summary_power_a40.csv";
  const GpuSpec* gpu = catalog.gpu("rtx-a6000");
  const LlmSpec* llm = catalog.llm("llama-3.1-8b");
  if (!std::filesystem::exists(file) || gpu == nullptr || llm == nullptr) {
    to.absent.push_back("zeus-power-caps");
    return {};
  }
  const Result<Table> t =
      Table::read(file, {"dataset", "network", "optimizer"}, {"batch_size", "power_limit", "time_per_epoch"});
  if (!t) return std::unexpected(t.error());
  const auto job = [&](std::size_t i) {
    return fmt::format("{} {} batch={} {}", t->text(i, "dataset"), t->text(i, "network"), t->number(i, "batch_size"),
                       t->text(i, "optimizer"));
  };
  std::map<std::string, double> unlimited;
  for (std::size_t i = 0; i < t->rows(); ++i) {
    if (t->number(i, "power_limit") == gpu->tdp.value()) unlimited[job(i)] = t->number(i, "time_per_epoch");
  }
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const Watts limit(t->number(i, "power_limit"));
    const auto whole = unlimited.find(job(i));
    if (!t->text(i, "network").contains("bert") || whole == unlimited.end() || limit >= gpu->tdp) continue;
    Experiment e;
    e.set = "Zeus/a40-power-limit";
    e.row = fmt::format("{} limit_w={}", job(i), limit.value());
    e.gpu = gpu->name;
    e.quantities = {{"time_ratio", t->number(i, "time_per_epoch") / whole->second}};
    e.simulate = [gpu, llm, limit](const HardwareProfile& profile, const Rival&) -> Simulated {
      return std::vector<double>{seconds_at(*gpu, *llm, profile, limit) / seconds_at(*gpu, *llm, profile, gpu->tdp)};
    };
    to.experiments.push_back(std::move(e));
  }
  return {};
}

}  // namespace wattle::fidelity
