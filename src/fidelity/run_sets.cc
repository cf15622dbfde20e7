// Whole runs: VoltanaLLM's disaggregated A100 instances at fixed clocks, Splitwise's prompt and token times.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <expected>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fidelity/baselines.h"
#include "fidelity/benchmark_run.h"
#include "fidelity/experiment.h"
#include "fidelity/published_names.h"
#include "fidelity/table.h"

namespace wattle::fidelity {
namespace {

using engine::HardwareProfile;
using engine::StepModel;

constexpr const char* kVoltana = "VoltanaLLM/fixed-clocks";

/// Mean and coefficient of variation of prompt and output lengths (docs of the two data sets).
struct Lengths {
  double input, input_cv, output, output_cv;
};
std::optional<Lengths> lengths_of(const std::string& dataset) {
  if (dataset == "LMSYS") return Lengths{78, 133.0 / 78, 175, 166.0 / 175};
  if (dataset == "ShareGPT") return Lengths{280, 376.0 / 280, 191, 209.0 / 191};
  return std::nullopt;
}

/// What a point of VoltanaLLM's figure ran.
struct VoltanaPoint {
  LlmSpec llm;
  Lengths lengths;
  MegaHertz clock;
};

/// Error: why the point is not scored.
std::expected<VoltanaPoint, std::string> voltana_point(const Table& t, std::size_t i, const GpuSpec& gpu,
                                                       const Catalog& catalog) {
  constexpr std::string_view kFixed = "sglang_";  // and its clock
  const std::string& system = t.text(i, "system");
  if (!system.starts_with(kFixed)) return std::unexpected("no fixed clock: " + system);
  std::int32_t mhz = 0;
  const char* end = system.data() + system.size();
  const auto [at, error] = std::from_chars(system.data() + kFixed.size(), end, mhz);
  const MegaHertz clock(mhz);
  if (error != std::errc() || at != end || clock < gpu.clock_min || clock > gpu.clock_max)
    return std::unexpected(fmt::format("{} is no clock of {}", system, gpu.name));
  const auto lengths = lengths_of(t.text(i, "dataset"));
  if (!lengths) return std::unexpected("unknown lengths of " + t.text(i, "dataset"));
  auto llm = published_llm(catalog, t.text(i, "model"));
  if (!llm) return std::unexpected(std::move(llm.error()));
  if (std::isnan(t.number(i, "energy_j"))) return std::unexpected("no energy_j");
  return VoltanaPoint{std::move(*llm), *lengths, clock};
}

/// Two prefill and two decode instances, arrivals split evenly for 120 s. Each instance's energy counts until its last
/// request is done (their client: from the first to the last reading with a running request).
Result<void> voltana_panel(const std::string& file, const GpuSpec* gpu, const Catalog& catalog, Collection& to) {
  const Result<Table> t =
      Table::read(file, {"model", "dataset", "system"}, {measured("energy_j").or_none(), requests("rps")});
  if (!t) return std::unexpected(t.error());
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const auto point = voltana_point(*t, i, *gpu, catalog);
    if (!point) {
      to.leave_out(kVoltana, point.error());
      continue;
    }
    const LlmSpec& llm = point->llm;
    // Qwen3-32B ran on pairs of GPUs, what leaves half of one to the KV cache on one.
    const std::int32_t tp = llm.weight_bytes() > 0.5 * gpu->memory_bytes ? 2 : 1;
    const double rate = t->number(i, "rps");
    const Lengths& lengths = point->lengths;
    Load load;
    load.rate_per_s = rate / 2.0;
    load.requests = static_cast<std::int32_t>(rate / 2.0 * 120.0);
    load.input_mean = lengths.input;
    load.input_cv = lengths.input_cv;
    load.output_mean = lengths.output;
    load.output_cv = lengths.output_cv;
    load.longest_input = load.longest_output = catalog.voltanallm.longest_tokens;
    load.clock = point->clock;
    Experiment e;
    e.set = llm.name == "llama-3.1-8b" ? kVoltana : "VoltanaLLM/fixed-clocks, other models";
    e.row = fmt::format("{} {} rps={} mhz={}", t->text(i, "model"), t->text(i, "dataset"), rate, load.clock.value());
    e.gpu = gpu->name;
    // One model's panel is fitted, and the CPU times of its framework were set by hand with that and Ministral-3B's in
    // view; other models were not looked at.
    e.fitted = llm.name == "llama-3.1-8b" && !held_out(e.set, e.row);
    e.in_view = voltanallm_in_view(llm.name);
    e.quantities = {{"energy_j", t->number(i, "energy_j")}};
    e.tp = tp;
    e.simulate = [gpu, llm, tp, load, engine = catalog.voltanallm.engine](const HardwareProfile& profile,
                                                                          const Rival& rival) -> Result<Simulated> {
      Result<StepModel> model = StepModel::make(*gpu, llm, tp, profile, engine);
      if (!model) return std::unexpected(model.error());
      const RivalPower power{rival, *gpu, llm, tp};
      double joules = 0.0;
      for (const bool prefill : {true, false}) {
        Load side = load;
        side.prefill_only = prefill;
        side.decode_only = !prefill;
        const Measured m = run(*model, engine, side, &power);
        if (!m.feasible) return too_large();
        joules += 2.0 * m.energy_j;
      }
      return Simulated{{joules}, model->asked()};
    };
    to.experiments.push_back(std::move(e));
  }
  return {};
}

Result<void> voltana(const std::string& data, const Catalog& catalog, Collection& to) {
  const GpuSpec* gpu = catalog.gpu("a100-80g");
  const std::vector<std::string> panels = voltanallm_panels(data);
  for (const std::string& name : panels) {
    if (gpu == nullptr) break;
    if (auto ok = voltana_panel(data + "/" + name, gpu, catalog, to); !ok) return ok;
  }
  to.found(!panels.empty() && gpu != nullptr, "VoltanaLLM");
  return {};
}

constexpr const char* kSplitwise = "splitwise-perf";

Result<void> splitwise(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = data + "/splitwise-perf/perf_model.csv";
  if (!to.found(std::filesystem::exists(file), kSplitwise)) return {};
  const Result<Table> t =
      Table::read(file, {"model", "hardware"},
                  {gpus("tensor_parallel"), tokens("prompt_size"), requests("batch_size"), tokens("token_size"),
                   measured("prompt_time"), measured("token_time"), not_negative("average_power")});
  if (!t) return std::unexpected(t.error());
  std::set<std::string> seen;  // repetitions of one condition: only the first counts
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const std::string& hardware = t->text(i, "hardware");
    if (hardware.contains("pcap")) {
      to.leave_out(kSplitwise, "under a power cap: computed from other rows, not measured");
      continue;
    }
    const auto known_gpu = published_gpu(catalog, hardware);
    const auto known_llm = published_llm(catalog, t->text(i, "model"));
    if (!known_gpu || !known_llm) {
      to.leave_out(kSplitwise, known_gpu ? known_llm.error() : known_gpu.error());
      continue;
    }
    const GpuSpec* gpu = *known_gpu;
    const LlmSpec& llm = *known_llm;
    const auto tp = t->whole(i, "tensor_parallel");
    const auto prompt = t->whole(i, "prompt_size");
    const auto batch = t->whole(i, "batch_size");
    const auto output = t->whole(i, "token_size");
    Experiment e;
    e.set = "splitwise-perf/" + gpu->name;
    e.row = fmt::format("{} tp={} prompt={} batch={} output={}", llm.name, tp, prompt, batch, output);
    if (!seen.insert(e.set + e.row).second) {
      to.leave_out(kSplitwise, "a condition measured again");
      continue;
    }
    e.gpu = gpu->name;
    e.quantities = {{"prompt_ms", t->number(i, "prompt_time")}, {"token_ms", t->number(i, "token_time")}};
    const double share = t->number(i, "average_power");
    const bool power = share > 0.0;
    if (power) e.quantities.push_back({"power_w", share * gpu->tdp.value() * tp});
    e.tp = tp;
    e.simulate = [gpu, llm, tp, prompt, batch, output, power](const HardwareProfile& profile,
                                                              const Rival& rival) -> Result<Simulated> {
      // A batch of equal requests, all prompts in one step.
      engine::EngineOptions engine = engine_of_2023();
      constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
      engine.max_num_batched_tokens = static_cast<std::int32_t>(std::min(std::int64_t{prompt} * batch, kMost));
      Load load;
      load.concurrency = load.requests = batch;
      load.input_mean = static_cast<double>(prompt);
      load.output_mean = static_cast<double>(output);
      load.clock = gpu->clock_max;
      const Result<StepModel> model = StepModel::make(*gpu, llm, tp, profile, engine);
      if (!model) return std::unexpected(model.error());
      const RivalPower other{rival, *gpu, llm, tp};
      const Measured m = run(*model, engine, load, &other);
      if (!m.feasible) return too_large();
      std::vector<double> values{m.ttft_mean_s * 1e3, m.tpot_mean_s * 1e3};
      if (power) values.push_back(m.power_w);
      return Simulated{std::move(values), model->asked()};
    };
    to.experiments.push_back(std::move(e));
  }
  return {};
}

/// Four H100 as one instance, power of the node: GPUs and two CPU sockets.
Result<void> node_power(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = data + "/h100-llama70b-power/inference_online_rate_llama3_70b.csv";
  const GpuSpec* gpu = catalog.gpu("h100");
  const LlmSpec* llm = catalog.llm("llama-3.1-70b");
  if (!to.found(std::filesystem::exists(file) && gpu != nullptr && llm != nullptr, "h100-llama70b-power")) return {};
  const Result<Table> t =
      Table::read(file, {"dataset-path"}, {measured("mean_power[W]").or_none(), measured("request_rate")});
  if (!t) return std::unexpected(t.error());
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const double power = t->number(i, "mean_power[W]");
    const std::string& dataset = t->text(i, "dataset-path");
    if (dataset != "likaixin/InstructCoder" || std::isnan(power)) {
      to.leave_out("h100-llama70b-power", std::isnan(power) ? "no mean_power[W]" : "unknown lengths of " + dataset);
      continue;
    }
    Load load;
    load.rate_per_s = t->number(i, "request_rate");
    load.requests = static_cast<std::int32_t>(std::clamp(load.rate_per_s * 40.0, 60.0, 800.0));
    load.input_mean = 174;  // totals of the runs with a fixed number of prompts
    load.output_mean = 159;
    load.input_cv = load.output_cv = 0.5;
    load.warm_up = 0.2;
    load.clock = gpu->clock_max;
    Experiment e;
    e.set = "h100-llama70b-power/rate";
    e.row = fmt::format("InstructCoder rate={}", load.rate_per_s);
    e.gpu = gpu->name;
    e.quantities = {{"power_w", power}};
    e.tp = 4;
    e.simulate = [gpu, llm, load](const HardwareProfile& profile, const Rival& rival) -> Result<Simulated> {
      const Result<StepModel> model = StepModel::make(*gpu, *llm, 4, profile, greedy_engine());
      if (!model) return std::unexpected(model.error());
      // Their idle node draws about 700 W: what our four parked GPUs leave is the rest of the node.
      const double rest = 700.0 - to_watts(model->idle_power(gpu->clock_min)).value();
      const RivalPower power_law{rival, *gpu, *llm, 4};
      const Measured m = run(*model, greedy_engine(), load, &power_law);
      if (!m.feasible) return too_large();
      return Simulated{{m.power_w + rest}, model->asked()};
    };
    to.experiments.push_back(std::move(e));
  }
  return {};
}

}  // namespace

bool voltanallm_in_view(std::string_view llm) { return llm == "llama-3.1-8b" || llm == "ministral-3b"; }

std::vector<std::string> voltanallm_panels(const std::string& data) {
  std::vector<std::string> panels;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(data + "/VoltanaLLM", none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("paper_main_result_digitised") && name.ends_with(".csv"))
      panels.push_back("VoltanaLLM/" + name);
  }
  std::ranges::sort(panels);
  return panels;
}

Result<void> collect_runs(const std::string& data, const Catalog& catalog, Collection& to) {
  if (auto ok = voltana(data, catalog, to); !ok) return ok;
  if (auto ok = node_power(data, catalog, to); !ok) return ok;
  return splitwise(data, catalog, to);
}

}  // namespace wattle::fidelity
