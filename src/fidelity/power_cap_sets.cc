// Time of work against the GPU's power limit: Zeus's training jobs on an A40.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "fidelity/experiment.h"
#include "fidelity/step_value.h"
#include "fidelity/table.h"

namespace wattle::fidelity {
namespace {

using engine::HardwareProfile;
using engine::StepModel;

constexpr const char* kZeus = "zeus-power-caps";

/// Prompts, because only they keep the tensor units as busy as training does.
constexpr StepShape kPrompts{0, 0, 8, 8192, 8 * 1024 * 512};

/// The rows of this job are used for the fit of how power follows the clock; those of the other job (SQuAD) judge it.
constexpr const char* kFittedJob = "sentiment140";

StepValue value_at(const GpuSpec& gpu, const LlmSpec& llm, const HardwareProfile& profile, Watts limit) {
  engine::EngineOptions options = greedy_engine();
  options.power_limit = limit;
  const auto model = StepModel::make(gpu, llm, 1, profile, options);
  return model ? step_value(*model, kPrompts, gpu.clock_max) : StepValue{kNone, kNone};
}

/// The profile with its units as busy as the job kept them, so that it draws the job's power without a limit. Training
/// in 32 bits with small batches draws half of what our prompts would.
HardwareProfile as_busy_as(const GpuSpec& gpu, const LlmSpec& llm, const HardwareProfile& profile, Watts unlimited) {
  const auto busy = [&](double share) {
    HardwareProfile made = profile;
    for (const auto member :
         {&HardwareProfile::busy_w, &HardwareProfile::tensor_pj_per_flop, &HardwareProfile::memory_pj_per_byte}) {
      made.*member *= share;
    }
    return made;
  };
  constexpr double kSome = 0.1;  // below the limit whatever the profile; power is linear in the share
  const double none_w = value_at(gpu, llm, busy(0.0), gpu.tdp).watts;
  const double some_w = value_at(gpu, llm, busy(kSome), gpu.tdp).watts;
  return busy(std::max(0.0, kSome * (unlimited.value() - none_w) / (some_w - none_w)));
}

struct Job {
  double seconds = kNone;  ///< per epoch, at the highest limit
  Watts draws;             ///< then
};

}  // namespace

/// Only transformers (BERT), because convolutions wait for data. Ratios to the time at the highest limit, which the
/// jobs do not reach; their power there is taken from the row, because it depends on the job and not on the card.
Result<void> collect_power_caps(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = data + "/zeus-power-caps/summary_power_a40.csv";
  const GpuSpec* gpu = catalog.gpu("a40");
  const LlmSpec* llm = catalog.llm("llama-3.1-8b");
  if (!to.found(std::filesystem::exists(file) && gpu != nullptr && llm != nullptr, kZeus)) return {};
  const Result<Table> t = Table::read(
      file, {"dataset", "network", "optimizer"},
      {requests("batch_size"), measured("power_limit"), measured("time_per_epoch"), measured("average_power")});
  if (!t) return std::unexpected(t.error());
  const auto job = [&](std::size_t i) {
    return fmt::format("{} {} batch={} {}", t->text(i, "dataset"), t->text(i, "network"), t->number(i, "batch_size"),
                       t->text(i, "optimizer"));
  };
  std::map<std::string, Job> unlimited;
  for (std::size_t i = 0; i < t->rows(); ++i) {
    if (t->number(i, "power_limit") != gpu->tdp.value()) continue;
    unlimited[job(i)] = {t->number(i, "time_per_epoch"), Watts(t->number(i, "average_power"))};
  }
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const Watts limit(t->number(i, "power_limit"));
    const auto whole = unlimited.find(job(i));
    std::string reason;
    if (limit > gpu->tdp) reason = "a limit above the TDP";
    if (whole == unlimited.end()) reason = "no row at the TDP to compare with";
    if (!t->text(i, "network").contains("bert")) reason = "no transformer";
    if (!reason.empty()) {
      to.leave_out(kZeus, reason);
      continue;
    }
    if (limit == gpu->tdp) continue;  // what the others are compared with
    Experiment e;
    e.set = "Zeus/a40-power-limit";
    e.row = fmt::format("{} limit_w={}", job(i), limit.value());
    e.gpu = gpu->name;
    e.fitted = t->text(i, "dataset") == kFittedJob;
    e.quantities = {{"time_ratio", t->number(i, "time_per_epoch") / whole->second.seconds}};
    e.simulate = [gpu, llm, limit, draws = whole->second.draws](const HardwareProfile& profile,
                                                                const Rival&) -> Simulated {
      const HardwareProfile busy = as_busy_as(*gpu, *llm, profile, draws);
      return std::vector<double>{value_at(*gpu, *llm, busy, limit).seconds /
                                 value_at(*gpu, *llm, busy, gpu->tdp).seconds};
    };
    to.experiments.push_back(std::move(e));
  }
  return {};
}

}  // namespace wattle::fidelity
