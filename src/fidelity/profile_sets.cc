// Profiles other simulators and planners ship: FREESH's pool, DistServe's fits, LLMServingSim's layers, and the shape
// of a small board's response to its clock.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "fidelity/baselines.h"
#include "fidelity/benchmark_run.h"
#include "fidelity/experiment.h"
#include "fidelity/kernel.h"
#include "fidelity/published_names.h"
#include "fidelity/step_value.h"
#include "fidelity/table.h"

namespace wattle::fidelity {
namespace {

using engine::HardwareProfile;
using engine::StepModel;

/// Prompt tokens of the release's types, which it does not print: the means of LMSYS-Chat-1M, where its prompts are
/// from (1,024 of them, length-stats/apex_llama_lmsys_05.csv), on either side of the partition's border.
double freesh_prompt(double partition, bool is_long) {
  if (partition == 1.0) return is_long ? 377.0 : 28.0;
  return is_long ? 140.0 : 11.0;
}

constexpr const char* kFreesh = "LLM_Serving_FREESH";
constexpr double kLeastGapMs = 5.0;  // 2 ms stand where nothing was measured

/// Workers of Llama-3-70B at their peak load and top clock. Answers have the length that latency and time per token
/// give.
Result<void> freesh(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = data + "/LLM_Serving_FREESH/pool_profile_llama3_70b.csv";
  const LlmSpec* llm = catalog.llm("llama-3-70b");
  if (!to.found(std::filesystem::exists(file) && llm != nullptr, kFreesh)) return {};
  const Result<Table> t =
      Table::read(file, {"request_type", "gpu"},
                  {requests("partition"), gpus("gpus_per_worker"), measured("worker_power_w"), not_negative("max_qps"),
                   measured("mean_e2e_latency_s"), measured("mean_ttft_ms"), measured("mean_tbt_ms")});
  if (!t) return std::unexpected(t.error());
  for (std::size_t i = 0; i < t->rows(); ++i) {
    // The H100s draw 243 to 327 W each, and four of them take no less than 29 ms a token, which four with HBM3 take 18
    // for: they are the PCIe cards.
    const bool h100 = t->text(i, "gpu") == "H100";
    const auto known_gpu = published_gpu(catalog, h100 ? "h100-pcie" : t->text(i, "gpu"));
    const std::string& type = t->text(i, "request_type");
    const double qps = t->number(i, "max_qps");
    const double tbt = t->number(i, "mean_tbt_ms");
    const double partition = t->number(i, "partition");
    std::string reason;
    if (!known_gpu) reason = known_gpu.error();
    if (partition > 2.0 || !(type.starts_with('S') || type.starts_with('L')))
      reason = fmt::format("unknown prompts of type {} in partition {}", type, partition);
    if (qps == 0.0 || tbt < kLeastGapMs) reason = qps == 0.0 ? "no rate is feasible" : "mean_tbt_ms is a placeholder";
    if (!reason.empty()) {
      to.leave_out(kFreesh, reason);
      continue;
    }
    const GpuSpec* gpu = *known_gpu;
    const auto tp = t->whole(i, "gpus_per_worker");
    Load load;
    load.rate_per_s = qps;
    load.requests = 300;
    load.input_mean = freesh_prompt(partition, type.starts_with('L'));
    load.output_mean = std::max(1.0, (t->number(i, "mean_e2e_latency_s") * 1e3 - t->number(i, "mean_ttft_ms")) / tbt);
    load.warm_up = 0.2;
    load.clock = gpu->clock_max;
    Experiment e;
    e.set = "FREESH/pool-profile";
    e.row = fmt::format("partition {} {} tp={} {} qps={}", partition, type, tp, gpu->name, qps);
    e.gpu = gpu->name;
    e.tp = tp;
    e.in_view = h100;  // which card it is was read off them
    e.quantities = {{"power_w", t->number(i, "worker_power_w")},
                    {"ttft_mean_ms", t->number(i, "mean_ttft_ms")},
                    {"tpot_mean_ms", tbt}};
    e.simulate = [gpu, llm, tp, load](const HardwareProfile& profile, const Rival& rival) -> Result<Simulated> {
      const Result<StepModel> model = StepModel::make(*gpu, *llm, tp, profile, benchmark_engine());
      if (!model) return std::unexpected(model.error());
      const RivalPower other{rival, *gpu, *llm, tp};
      const Measured m = run(*model, benchmark_engine(), load, &other);
      if (!m.feasible) return too_large();
      return Simulated{{m.power_w, m.ttft_mean_s * 1e3, m.tpot_mean_s * 1e3}, model->asked()};
    };
    to.experiments.push_back(std::move(e));
  }
  return {};
}

/// Quadratics and planes fitted by DistServe's authors to vLLM of 2023 on an A100: read off at a few points each.
constexpr std::int32_t kCpuTimeBatch = 16;  // engine_of_2023()'s time was chosen on
Result<void> distserve(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = data + "/distserve-profiles/profiler-a100-80g.vllm.json";
  const GpuSpec* gpu = catalog.gpu("a100-80g");
  if (!to.found(std::filesystem::exists(file) && gpu != nullptr, "distserve-profiles")) return {};
  const Result<std::string> text = read_file(file);
  if (!text) return std::unexpected(text.error());
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object()) return bad_input(file, "not a JSON object");
  for (const auto& [name, by_tp] : json.items()) {
    const auto known = published_llm(catalog, name);
    if (!known) {
      to.leave_out("distserve-profiles", known.error());
      continue;
    }
    const LlmSpec& llm = *known;
    for (const auto& [degree, fit] : by_tp.items()) {
      const auto tp = static_cast<std::int32_t>(std::strtol(degree.c_str(), nullptr, 10));
      const auto add = [&](const std::string& row, const char* quantity, double ms, StepShape shape) {
        Experiment e;
        e.set = "DistServe/a100-profiles";
        e.row = fmt::format("{} tp={} {}", llm.name, tp, row);
        e.gpu = gpu->name;
        e.tp = tp;
        e.quantities = {{quantity, ms}};
        e.in_view = tp > 1 && shape.decode_requests == kCpuTimeBatch;
        e.simulate = [gpu, llm, tp, shape](const HardwareProfile& profile, const Rival&) -> Result<Simulated> {
          const Result<StepModel> model = StepModel::make(*gpu, llm, tp, profile, engine_of_2023());
          if (!model) return std::unexpected(model.error());
          return Simulated{{step_value(*model, shape, gpu->clock_max).seconds * 1e3}, model->asked()};
        };
        to.experiments.push_back(std::move(e));
      };
      try {
        const auto at = [](const nlohmann::json& c, double x, double y) {
          return c.at(0).get<double>() + c.at(1).get<double>() * x + c.at(2).get<double>() * y;
        };
        for (const std::int64_t tokens : {256, 1024, 2048}) {
          const auto n = static_cast<double>(tokens);
          add(fmt::format("prompt={}", tokens), "prompt_ms", at(fit.at("prefill"), n, n * n),
              {0, 0, 1, tokens, tokens * tokens / 2});
        }
        for (const std::int32_t batch : {kCpuTimeBatch, 64, 128}) {
          const std::int64_t context = std::int64_t{batch} * 512;
          const bool large = batch >= fit.at("decoding_large_small_bs_threshold").get<int>();
          add(fmt::format("decode batch={} context=512", batch), "token_ms",
              at(fit.at(large ? "decoding_largebs" : "decoding_smallbs"), static_cast<double>(context), batch),
              {batch, context, 0, 0, 0});
        }
      } catch (const nlohmann::json::exception& bad) {
        return bad_input(file, fmt::format("{} {}: {}", name, degree, bad.what()));
      }
    }
  }
  return {};
}

/// Sums of the products of one layer on an H100, each matrix on its own as there.
Result<void> llmservingsim(const std::string& data, const Catalog& catalog, Collection& to) {
  struct File {
    const char* name;
    const char* llm;
    std::int32_t tp;
  };
  const GpuSpec* gpu = catalog.gpu("h100");
  for (const File& f :
       {File{"h100_llama-3.1-8b_tp1", "llama-3.1-8b", 1}, File{"h100_llama-3.1-8b_tp2", "llama-3.1-8b", 2},
        File{"h100_llama-3.1-70b_tp4", "llama-3.1-70b", 4}}) {
    const std::string file = fmt::format("{}/llmservingsim-profiles/{}_layers.csv", data, f.name);
    const LlmSpec* llm = catalog.llm(f.llm);
    if (gpu == nullptr || llm == nullptr) continue;
    if (!to.found(std::filesystem::exists(file), "llmservingsim-profiles")) return {};
    const Result<Table> t = Table::read(file, {"layer"}, {tokens("tokens"), measured("latency_ns")});
    if (!t) return std::unexpected(t.error());
    std::map<std::int64_t, double> by_tokens;
    for (std::size_t i = 0; i < t->rows(); ++i) {
      if (t->text(i, "layer").find("_proj") == std::string::npos) continue;
      by_tokens[t->whole(i, "tokens")] += t->number(i, "latency_ns");
    }
    for (const auto& [tokens, ns] : by_tokens) {
      Experiment e;
      e.set = fmt::format("LLMServingSim/{}", f.name);
      e.row = fmt::format("tokens={}", tokens);
      e.gpu = gpu->name;
      e.tp = f.tp;
      e.quantities = {{"products_ms", ns * 1e-6}};
      e.simulate = [gpu, llm, tp = f.tp, n = static_cast<double>(tokens)](const HardwareProfile& profile,
                                                                          const Rival&) -> Result<Simulated> {
        const auto work = [&](const engine::Operations& o) {
          const double q = static_cast<double>(llm->heads) / tp * llm->head_dim;
          const double kv = static_cast<double>(llm->kv_heads) / tp * llm->head_dim;
          const double ffn = static_cast<double>(llm->ffn) / tp;
          return o.product(n, q, llm->hidden) + o.product(n, kv, llm->hidden) * 2.0 + o.product(n, llm->hidden, q) +
                 o.product(n, ffn, llm->hidden) * 2.0 + o.product(n, llm->hidden, ffn);
        };
        const std::int32_t clock = gpu->clock_max.value();
        const engine::AskedRange asked{0, 0, static_cast<std::int64_t>(n), clock, clock};
        return Simulated{{repeat_kernel(*gpu, *llm, tp, profile, false, work).seconds * 1e3}, asked};
      };
      to.experiments.push_back(std::move(e));
    }
  }
  return {};
}

constexpr const char* kJetson = "dvfs-jetson-llm";

/// Decode of a 1B model on Jetson AGX Orin: only how its time grows as the clock falls, against our A100 with the 3B
/// model at the same share of its top clock. An edge board with other memory, so only the shape is comparable.
Result<void> jetson(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = data + "/dvfs-jetson-llm/grid_search_fan_on.csv";
  const GpuSpec* gpu = catalog.gpu("a100-80g");
  const LlmSpec* llm = catalog.llm("ministral-3b");
  if (!to.found(std::filesystem::exists(file) && gpu != nullptr && llm != nullptr, kJetson)) return {};
  const Result<Table> t =
      Table::read(file, {}, {measured("decode_mhz"), requests("effective_batch_size"), measured("decode_time")});
  if (!t) return std::unexpected(t.error());
  // Mean over the prefill clocks, by batch and decode clock.
  std::map<std::pair<std::int32_t, double>, std::pair<double, double>> sums;
  double top = 0.0;
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const double mhz = t->number(i, "decode_mhz");
    const std::int32_t batch = t->whole(i, "effective_batch_size");
    if (batch != 1 && batch != 8 && batch != 32) {
      to.leave_out(kJetson, "another batch than 1, 8 and 32");
      continue;
    }
    top = std::max(top, mhz);
    auto& [sum, count] = sums[{batch, mhz}];
    sum += t->number(i, "decode_time");
    count += 1.0;
  }
  for (const auto& [key, value] : sums) {
    const auto& [batch, mhz] = key;
    const auto at_top = sums.find({batch, top});
    if (at_top == sums.end()) to.leave_out(kJetson, "a batch without rows at the top clock");
    if (mhz == top || at_top == sums.end()) continue;
    Experiment e;
    e.set = "Jetson/clock-shape";
    e.row = fmt::format("decode batch={} at {:.2f} of the top clock", batch, mhz / top);
    e.gpu = gpu->name;
    e.quantities = {{"time_ratio", value.first / value.second / (at_top->second.first / at_top->second.second)}};
    e.simulate = [gpu, llm, batch, x = mhz / top](const HardwareProfile& profile, const Rival&) -> Result<Simulated> {
      const Result<StepModel> model = StepModel::make(*gpu, *llm, 1, profile, benchmark_engine());
      if (!model) return std::unexpected(model.error());
      const StepShape shape{batch, std::int64_t{batch} * 60, 0, 0, 0};
      const auto clock = static_cast<std::int32_t>(x * gpu->clock_max.value());
      const double low = step_value(*model, shape, MegaHertz(clock)).seconds;
      return Simulated{{low / step_value(*model, shape, gpu->clock_max).seconds}, model->asked()};
    };
    to.experiments.push_back(std::move(e));
  }
  return {};
}

}  // namespace

Result<void> collect_profiles(const std::string& data, const Catalog& catalog, Collection& to) {
  for (const auto reader : {freesh, distserve, llmservingsim, jetson}) {
    if (auto ok = reader(data, catalog, to); !ok) return ok;
  }
  return {};
}

}  // namespace wattle::fidelity
