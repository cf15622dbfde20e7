// Serving runs on one instance at steady load: the H100 clock sweep, ML.ENERGY, aiconfigurator's end-to-end samples.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <expected>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "fidelity/aiconfigurator_client.h"
#include "fidelity/baselines.h"
#include "fidelity/benchmark_run.h"
#include "fidelity/experiment.h"
#include "fidelity/published_names.h"
#include "fidelity/sample_model.h"
#include "fidelity/serving.h"
#include "fidelity/step_value.h"
#include "fidelity/table.h"

namespace wattle::fidelity {
namespace {

using engine::HardwareProfile;
using engine::StepModel;

/// Prompts run without a CUDA graph: the CPU's launches of one layer's kernels, where the GPU is faster than they are.
/// Of 0.2, 0.3 and 0.4 ms what suits the fitted rows: at TP4 short prompts draw far less than at TP2, not at 360
/// MHz.
constexpr double kEagerLayer = 0.3e-3;
StepValue launched_eagerly(const StepValue& step, double idle_w, const LlmSpec& llm) {
  const double seconds = std::max(step.seconds, kEagerLayer * llm.layers);
  return {seconds, idle_w + (step.watts - idle_w) * step.seconds / seconds};
}

Result<void> idle_and_prefill(const std::string& folder, const GpuSpec& gpu, const LlmSpec& llm, Collection& to) {
  for (const bool idle : {true, false}) {
    const std::string file = folder + (idle ? "/h100_idle_power.csv" : "/h100_prefill_busy_power.csv");
    if (!std::filesystem::exists(file)) continue;
    std::vector<Numbers> columns{gpus("tp"), clock_mhz("freq_mhz"),
                                 measured(idle ? "instance_idle_power_w" : "instance_power_w")};
    if (!idle) columns.push_back(tokens("prefill_tokens"));
    const Result<Table> t = Table::read(file, {}, columns);
    if (!t) return std::unexpected(t.error());
    for (std::size_t i = 0; i < t->rows(); ++i) {
      const auto tp = t->whole(i, "tp");
      const auto locked = lockable_clock(*t, i, "freq_mhz", gpu);
      if (!locked) return std::unexpected(locked.error());
      const MegaHertz clock = *locked;
      const double tokens = idle ? 0.0 : t->number(i, "prefill_tokens");
      Experiment e;
      e.set = idle ? "vllm-fork-Louis-99/idle" : "vllm-fork-Louis-99/prefill-busy";
      e.row = idle ? fmt::format("tp={} mhz={}", tp, clock.value())
                   : fmt::format("tp={} mhz={} tokens={}", tp, clock.value(), tokens);
      e.gpu = gpu.name;
      e.fitted = !held_out(e.set, e.row);
      e.quantities = {{"power_w", t->number(i, idle ? "instance_idle_power_w" : "instance_power_w")}};
      const Instance at{gpu, llm, tp, greedy_engine()};
      e.tp = tp;
      e.simulate = [at, clock, tokens](const HardwareProfile& profile, const Rival& rival) -> Result<Simulated> {
        const Result<StepModel> model = instance(at, profile);
        if (!model) return std::unexpected(model.error());
        StepShape shape;
        if (tokens > 0) {
          shape.prefill_requests = 1;
          shape.prefill_tokens = static_cast<std::int64_t>(tokens);
          shape.prefill_context_tokens = shape.prefill_tokens * shape.prefill_tokens / 2;
        }
        StepValue ours{0.0, to_watts(model->idle_power(clock)).value()};
        if (tokens > 0) ours = launched_eagerly(step_value(*model, shape, clock), ours.watts, at.llm);
        const RivalPower other{rival, at.gpu, at.llm, at.shape.gpus()};
        const double watts = rival.law == PowerLaw::Ours ? ours.watts : other.step(shape, ours.seconds);
        return Simulated{{watts}, model->asked()};
      };
      to.experiments.push_back(std::move(e));
    }
  }
  return {};
}

/// Prompt lengths are not in the table. Chat and reasoning prompts: what the KV cache holds per request where it limits
/// the batch (on H100 Llama-3.1-8B 645 tokens, 70B 522), less what such a request has generated on average (393, 350);
/// code completion carries a file.
double prompt_mean(const std::string& task) { return task.find("fim") != std::string::npos ? 1500.0 : 210.0; }

using LengthSpread = std::map<std::pair<std::string, std::string>, double>;

/// Coefficient of variation of the answers' lengths by task and model, from the published histograms.
Result<LengthSpread> length_spread(const std::string& data) {
  LengthSpread spread;
  const std::string file = data + "/mlenergy/v3_output_length_histograms.csv";
  if (!std::filesystem::exists(file)) return spread;
  const Result<Table> t =
      Table::read(file, {"task", "model_id"}, {not_negative("bin_lo"), not_negative("bin_hi"), not_negative("count")});
  if (!t) return std::unexpected(t.error());
  struct Moments {
    double count = 0.0, sum = 0.0, squares = 0.0;
  };
  std::map<std::pair<std::string, std::string>, Moments> moments;
  for (std::size_t i = 0; i < t->rows(); ++i) {
    Moments& m = moments[{t->text(i, "task"), t->text(i, "model_id")}];
    const double n = t->number(i, "count");
    const double length = 0.5 * (t->number(i, "bin_lo") + t->number(i, "bin_hi"));
    m.count += n;
    m.sum += n * length;
    m.squares += n * length * length;
  }
  for (const auto& [key, m] : moments) {
    if (m.sum > 0.0) spread[key] = std::sqrt(std::max(0.0, m.squares * m.count / (m.sum * m.sum) - 1.0));
  }
  return spread;
}

/// Rows in which the GPU waited for its host: it drew less than nine tenths of the power of the same model on as many
/// GPUs with a smaller or equal batch. At one clock a larger batch is never less work per second, and such rows are
/// slow, too (Qwen3-14B's 8 requests take 34 ms a token in one task and 7 in another). By measured power alone, for
/// every card.
std::vector<bool> waited_for_host(const Table& t) {
  constexpr double kLeastOfBest = 0.9;
  using Key = std::tuple<std::string, std::string, std::string, double>;
  const auto key = [&](std::size_t i) {
    return Key{t.text(i, "gpu_model"), t.text(i, "model_id"), t.text(i, "weight_precision"), t.number(i, "num_gpus")};
  };
  std::map<Key, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < t.rows(); ++i) alike[key(i)].push_back(i);
  std::vector<bool> waited(t.rows(), false);
  for (std::size_t i = 0; i < t.rows(); ++i) {
    for (const std::size_t other : alike[key(i)]) {
      waited[i] = waited[i] || (t.number(other, "max_num_seqs") <= t.number(i, "max_num_seqs") &&
                                t.number(i, "avg_power_watts") < kLeastOfBest * t.number(other, "avg_power_watts"));
    }
  }
  return waited;
}

/// Time that a step waits for its host in ML.ENERGY's reasoning runs (gpqa) on one B200; the same models' chat runs
/// wait for 0.3 ms, and on an H100 neither waits. It is the difference between gpqa's and chat's time per token with 8
/// to 128 requests in the mean over Qwen3-30B-A3B (25 ms) and Nemotron-Nano-12B and 9B (23 and 14). None of these is
/// dense and known here, so the dense rows judge it. gpt-oss's runs on one GPU do not wait.
constexpr Span kReasoningHostStep = Span::us(20'900);

constexpr const char* kMlEnergy = "mlenergy/v3_llm_configs";

/// Why a row of ML.ENERGY's benchmark is not scored, whatever its GPU and model; empty: it is.
std::string unscored_task(const Table& t, std::size_t i) {
  const std::string& task = t.text(i, "task");
  if (task.contains("image") || task.contains("video")) return "task " + task;
  const std::int32_t gpus = t.whole(i, "num_gpus");
  const std::int32_t groups = t.whole(i, "data_parallel");
  if (gpus % groups != 0) return fmt::format("{} GPUs in {} data-parallel groups", gpus, groups);
  return {};
}

/// vLLM: experts are parallel within the tensor-parallel group, or over as many data-parallel groups of one GPU.
Parallelism ml_energy_shape(const Table& t, std::size_t i) {
  const std::int32_t all = t.whole(i, "num_gpus");
  Parallelism shape(all);
  shape.expert = t.whole(i, "expert_parallel");
  shape.data = t.whole(i, "data_parallel");
  shape.tensor = all / shape.data;
  return shape;
}

Result<void> ml_energy(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = fmt::format("{}/{}.csv", data, kMlEnergy);
  if (!to.found(std::filesystem::exists(file), "mlenergy")) return {};
  const Result<Table> t =
      Table::read(file, {"task", "model_id", "gpu_model", "weight_precision"},
                  {requests("max_num_seqs"), gpus("num_gpus"), gpus("data_parallel"), gpus("expert_parallel"),
                   mean_requests("avg_batch_size"), mean_tokens("avg_output_len"), measured("avg_power_watts"),
                   measured("median_itl_ms"), measured("energy_per_token_joules")});
  if (!t) return std::unexpected(t.error());
  const Result<LengthSpread> spread = length_spread(data);
  if (!spread) return std::unexpected(spread.error());
  const std::vector<bool> waited = waited_for_host(*t);
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const std::string& task = t->text(i, "task");
    const auto known_gpu = published_gpu(catalog, t->text(i, "gpu_model"));
    const auto llm = published_llm(catalog, t->text(i, "model_id"), {t->text(i, "weight_precision")});
    std::string reason = unscored_task(*t, i);
    if (reason.empty() && !known_gpu) reason = known_gpu.error();
    if (reason.empty() && !llm) reason = llm.error();
    if (!reason.empty()) {
      to.leave_out(kMlEnergy, reason);
      continue;
    }
    const GpuSpec* gpu = *known_gpu;
    Instance at{*gpu, *llm, ml_energy_shape(*t, i)};
    if (at.llm.dtype == Dtype::Fp8 && llm->name == "llama-3.1-405b") at.llm.attention_weights = Dtype::Bf16;  // Meta's
    Load load;
    load.concurrency = static_cast<std::int32_t>(std::lround(t->number(i, "avg_batch_size")));
    load.output_mean = t->number(i, "avg_output_len");
    load.input_mean = prompt_mean(task);
    load.input_cv = 1.0;
    const auto published = spread->find({task, t->text(i, "model_id")});
    load.output_cv = published == spread->end() ? 1.0 : published->second;
    at.engine.max_num_seqs = t->whole(i, "max_num_seqs");
    // vLLM 0.11.1, by its image; its configurations of DeepSeek select FlashInfer's experts.
    if (!llm->name.starts_with("deepseek")) {
      at.engine.expert_row_block = vllm_expert_row_block(llm->name, at.llm.dtype == Dtype::Fp8);
    }
    const bool slow_host =
        gpu->name == "b200" && at.shape.gpus() == 1 && task == "gpqa" && !llm->name.starts_with("gpt-oss");
    if (slow_host) at.engine.step_gap = kReasoningHostStep;
    load.warm_up = 1.0 / 3.0;  // all in flight at the start are gone by then
    load.requests = std::max(60, 3 * load.concurrency);
    load.clock = gpu->clock_max;
    Experiment e;
    // Which row is held out does not depend on whether the GPU waited.
    const std::string set = fmt::format("mlenergy/{}-{}", gpu->name, llm->experts > 1 ? "moe" : "dense");
    e.set = set + (waited[i] ? " (waiting for the host)" : " (kept busy)");
    e.row = fmt::format("{} {} batch={}", task, t->text(i, "model_id"), t->text(i, "max_num_seqs"));
    e.gpu = gpu->name;
    if (llm->experts == 1 && !waited[i]) e.model = llm->name;
    e.in_view = slow_host && llm->name == "qwen3-30b-a3b";  // kReasoningHostStep was chosen on it
    // Only two dense models are fitted (their power where the GPU was kept busy); every other model is one the fit has
    // not seen.
    e.fitted = llm->experts == 1 && at.llm.dtype == Dtype::Bf16 && task == "lm-arena-chat" &&
               (llm->name == "llama-3.1-8b" || llm->name == "llama-3.1-70b") && !held_out(set, e.row);
    e.quantities = {{"power_w", t->number(i, "avg_power_watts")},
                    {"itl_p50_ms", t->number(i, "median_itl_ms")},
                    {"energy_per_token_j", t->number(i, "energy_per_token_joules")}};
    e.tp = at.shape.tensor;
    e.simulate = serve(std::move(at), load, e.quantities);
    to.experiments.push_back(std::move(e));
  }
  return {};
}

SampleShape sample_shape(const Table& t, std::size_t i) {
  SampleShape shape{is_aiconfigurators_own(t.text(i, "silicon_data_source"))};
  const auto degree = [&](const char* column) { return std::max(1, t.whole(i, column)); };  // none, or 0: 1
  shape.tensor = degree("tp_size");
  shape.pipeline = degree("pp_size");
  shape.attention_data = degree("attention_dp_size");
  shape.moe_tensor = degree("moe_tp_size");
  shape.moe_expert = degree("moe_ep_size");
  return shape;
}

constexpr const char* kSample = "aiconfigurator/silicon_sample";

/// What a row of the sample ran on.
struct SampleInstance {
  const GpuSpec* gpu;
  LlmSpec llm;
  Parallelism shape;
  std::int32_t concurrency;
};

/// Error: why the row is not scored.
std::expected<SampleInstance, std::string> sample_instance(const Table& t, std::size_t i, const Catalog& catalog) {
  constexpr std::int64_t kMostInFlight = 100'000;
  const auto gpu = published_gpu(catalog, t.text(i, "system"));
  if (!gpu) return std::unexpected(gpu.error());
  const std::string& mode = t.text(i, "mode");
  if (mode != "agg") return std::unexpected(mode == "disagg" ? "prefill and decode apart" : "mode " + mode);
  if (!knows_backend(t.text(i, "backend"))) return std::unexpected("unknown backend " + t.text(i, "backend"));
  auto llm = published_llm(catalog, t.text(i, "model_path"), {t.text(i, "gemm_quant_mode"), t.text(i, "precision")});
  if (!llm) return std::unexpected(std::move(llm.error()));
  if (t.whole(i, "tp_size") == 0 || t.whole(i, "batch_size") == 0) return std::unexpected("no tp_size or batch_size");
  const SampleShape row = sample_shape(t, i);
  const auto shape = parallelism_of(row, *llm);
  if (!shape) return std::unexpected(shape.error());
  const std::int64_t concurrency = concurrency_of(row, t.text(i, "silicon_data_source"), t.whole(i, "batch_size"));
  if (concurrency > kMostInFlight)
    return std::unexpected(fmt::format("more than {} requests in flight", kMostInFlight));
  return SampleInstance{*gpu, std::move(*llm), *shape, static_cast<std::int32_t>(concurrency)};
}

/// The sets of dense models in 16 or 8 bits have names of their own, because targets refer to them.
std::string end_to_end_set(const GpuSpec& gpu, const LlmSpec& llm, const std::string& backend) {
  if (llm.experts > 1) return fmt::format("aiconfigurator/served-{}-moe/{}", gpu.name, backend);
  if (four_bits(llm.dtype)) return fmt::format("aiconfigurator/served-{}-dense-fp4/{}", gpu.name, backend);
  return fmt::format("aiconfigurator/end-to-end-{}-dense/{}", gpu.name, backend);
}

std::string shape_text(const Parallelism& shape) {
  std::string text = fmt::format("tp={}", shape.tensor);
  if (shape.data > 1) text += fmt::format(" dp={}", shape.data);
  if (shape.expert > 1) text += fmt::format(" ep={}", shape.expert);
  return text;
}

std::string_view weights_text(const LlmSpec& llm) {
  if (four_bits(llm.dtype) || four_bits(llm.expert_dtype())) return llm.expert_dtype() == Dtype::Int4 ? "int4" : "fp4";
  return llm.dtype == Dtype::Fp8 ? "fp8" : "bf16";
}

Result<void> end_to_end(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = fmt::format("{}/{}.csv", data, kSample);
  if (!to.found(std::filesystem::exists(file), kSample)) return {};
  const auto degree = [](const char* column) {
    Numbers of = gpus(column).or_none();
    of.low = 0;  // as the file writes that there is none
    return of;
  };
  const Result<Table> t = Table::read(
      file, {"system", "model_path", "precision", "mode", "backend", "gemm_quant_mode", "silicon_data_source"},
      {gpus("tp_size").or_none(), degree("pp_size"), degree("attention_dp_size"), degree("moe_tp_size"),
       degree("moe_ep_size"), requests("batch_size").or_none(), tokens("isl"), tokens("osl"),
       measured("silicon_ttft_ms"), measured("silicon_tpot_ms")});
  if (!t) return std::unexpected(t.error());
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const auto known = sample_instance(*t, i, catalog);
    if (!known) {
      to.leave_out(kSample, known.error());
      continue;
    }
    const GpuSpec* gpu = known->gpu;
    const LlmSpec* llm = &known->llm;
    Instance at{*gpu, *llm, known->shape};
    const SampleRow sample{t->text(i, "silicon_data_source"),
                           t->text(i, "backend"),
                           llm->name,
                           gpu->name,
                           t->number(i, "isl"),
                           t->number(i, "osl"),
                           known->concurrency,
                           at.shape.data,
                           at.shape.tensor,
                           t->text(i, "precision"),
                           at.shape.expert};
    const SampleRun client = run_of(sample);
    Load load = client.load;
    at.engine = client.engine;
    constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
    at.engine.max_num_batched_tokens = static_cast<std::int32_t>(
        std::min(std::int64_t{at.engine.max_num_batched_tokens} * at.shape.data, kMostTokens));
    const bool narrow = sample.precision == "fp4" || at.llm.dtype == Dtype::Fp8;
    if (narrow && narrow_kv_cache(sample)) at.llm.kv_dtype = Dtype::Fp8;
    load.clock = gpu->clock_max;
    Experiment e;
    e.set = end_to_end_set(*gpu, at.llm, sample.backend);
    e.row = fmt::format("{} {} {} isl={} osl={} concurrency={}", llm->name, shape_text(at.shape), weights_text(at.llm),
                        load.input_mean, load.output_mean, load.concurrency);
    e.gpu = gpu->name;
    e.fitted = e.set.starts_with("aiconfigurator/end-to-end-") && chose_conventions(e.set, e.row);
    e.in_view = llm->experts > 1 && chose_expert_times(llm->name, e.set, e.row);
    e.quantities = {{"ttft_mean_ms", t->number(i, "silicon_ttft_ms")},
                    {"tpot_mean_ms", t->number(i, "silicon_tpot_ms")}};
    e.tp = at.shape.tensor;
    e.simulate = serve(std::move(at), load, e.quantities);
    to.experiments.push_back(std::move(e));
  }
  return {};
}

}  // namespace

Result<void> collect_clock_sweep(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string folder = data + "/vllm-fork-Louis-99";
  const std::string file = folder + "/h100_llama70b_tp_freq_load_profile.csv";
  const GpuSpec* gpu = catalog.gpu("h100");
  const LlmSpec* llm = catalog.llm("llama-3-70b");
  if (!to.found(std::filesystem::exists(folder) && gpu != nullptr && llm != nullptr, "vllm-fork-Louis-99")) return {};
  if (auto ok = idle_and_prefill(folder, *gpu, *llm, to); !ok) return ok;
  if (!std::filesystem::exists(file)) return {};
  const Result<Table> t = Table::read(file, {},
                                      {gpus("tp"), tokens("input_len"), tokens("output_len"), clock_mhz("freq"),
                                       measured("rps"), measured("power"), measured("ttft_p99"), measured("tpot_p99")});
  if (!t) return std::unexpected(t.error());
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const auto clock = lockable_clock(*t, i, "freq", *gpu);
    if (!clock) return std::unexpected(clock.error());
    Load load;
    load.rate_per_s = t->number(i, "rps");
    load.requests = 400;
    load.input_mean = t->number(i, "input_len");
    load.output_mean = t->number(i, "output_len");
    load.clock = *clock;
    const Instance at{*gpu, *llm, t->whole(i, "tp"), clock_sweep_engine()};
    Experiment e;
    e.set = "vllm-fork-Louis-99/clock-sweep";
    e.row = fmt::format("tp={} mhz={} rps={:.3f}", at.shape.tensor, load.clock.value(), load.rate_per_s);
    e.gpu = gpu->name;
    e.fitted = !held_out(e.set, e.row);
    e.quantities = {{"power_w", t->number(i, "power")},
                    {"ttft_p99_ms", t->number(i, "ttft_p99") * 1e3},
                    {"tpot_p99_ms", t->number(i, "tpot_p99") * 1e3}};
    e.tp = at.shape.tensor;
    e.simulate = serve(at, load, e.quantities);
    to.experiments.push_back(std::move(e));
  }
  return {};
}

Result<void> collect_serving(const std::string& data, const Catalog& catalog, Collection& to) {
  if (auto ok = ml_energy(data, catalog, to); !ok) return ok;
  return end_to_end(data, catalog, to);
}

}  // namespace wattle::fidelity
