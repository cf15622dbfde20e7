// ML.ENERGY's benchmark of 2024: vLLM 0.5.4 with 2B to 141B models on A100-40G (AWS p4d) and H100 (p5), chat and code.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "fidelity/experiment.h"
#include "fidelity/published_names.h"
#include "fidelity/serving.h"
#include "fidelity/table.h"

namespace wattle::fidelity {
namespace {

constexpr const char* kMlEnergy2024 = "mlenergy/v2_llm_configs";

/// ShareGPT's first turns behind a system prompt; HumanEval's and MBPP's prompts. Assumed, because the table has no
/// prompt lengths: chat as in the later benchmark, code as such prompts usually are.
double prompt_mean(const std::string& task) { return task == "code" ? 130.0 : 210.0; }

/// A run with a token rate below this share of (requests in flight / time per token) was not steady: it had so few
/// requests that it was mostly start and end.
constexpr double kSteady = 0.8;

/// Whether the engine's CPU times (engine/framework.cc) were chosen with this row in view; only the other rows judge
/// them.
bool in_view(const LlmSpec& llm, const std::string& task, std::int32_t gpus) {
  constexpr double kSmallParameters = 4e9;
  return llm.parameters() < kSmallParameters || (task == "code" && gpus > 1);
}

}  // namespace

Result<void> collect_ml_energy_2024(const std::string& data, const Catalog& catalog, Collection& to) {
  const std::string file = fmt::format("{}/{}.csv", data, kMlEnergy2024);
  if (!to.found(std::filesystem::exists(file), kMlEnergy2024)) return {};
  const Result<Table> t = Table::read(
      file, {"task", "gpu", "model", "config"},
      {gpus("TP"), gpus("PP"), measured("Energy/req (J)"), measured("Avg TPOT (s)"), measured("Token tput (tok/s)"),
       mean_tokens("Avg Output Tokens"), mean_requests("Avg BS (reqs)"), requests("Max BS (reqs)")});
  if (!t) return std::unexpected(t.error());
  for (std::size_t i = 0; i < t->rows(); ++i) {
    const auto known_gpu = published_gpu(catalog, t->text(i, "gpu"));
    const auto llm = published_llm(catalog, t->text(i, "model"));
    if (!known_gpu || !llm) {
      to.leave_out(kMlEnergy2024, known_gpu ? llm.error() : known_gpu.error());
      continue;
    }
    const GpuSpec* gpu = *known_gpu;
    const double in_flight = t->number(i, "Avg BS (reqs)");
    const double tokens_per_s = t->number(i, "Token tput (tok/s)");
    const double tpot_s = t->number(i, "Avg TPOT (s)");
    if (tokens_per_s < kSteady * in_flight / tpot_s) {
      to.leave_out(kMlEnergy2024, "most of the run is its start and end");
      continue;
    }
    const double joules = t->number(i, "Energy/req (J)") / t->number(i, "Avg Output Tokens");
    Instance at{*gpu, *llm, t->whole(i, "TP")};
    at.shape.pipeline = t->whole(i, "PP");
    at.engine.framework = engine::Framework::VllmV0;
    at.engine.max_num_seqs = t->whole(i, "Max BS (reqs)");
    Load load;
    load.concurrency = static_cast<std::int32_t>(std::lround(in_flight));
    load.input_mean = prompt_mean(t->text(i, "task"));
    load.input_cv = 1.0;
    load.output_mean = t->number(i, "Avg Output Tokens");
    load.output_cv = 1.0;
    load.warm_up = 1.0 / 3.0;
    load.requests = std::max(60, 3 * load.concurrency);
    load.clock = gpu->clock_max;
    Experiment e;
    e.set = fmt::format("mlenergy-2024/{}-{}", gpu->name, llm->experts > 1 ? "moe" : "dense");
    e.row = fmt::format("{} {} {}", t->text(i, "task"), t->text(i, "model"), t->text(i, "config"));
    e.gpu = gpu->name;
    e.in_view = in_view(*llm, t->text(i, "task"), at.shape.gpus());
    e.quantities = {{"tpot_mean_ms", tpot_s * 1e3}, {"power_w", joules * tokens_per_s}, {"energy_per_token_j", joules}};
    e.tp = at.shape.tensor;
    e.simulate = serve(std::move(at), load, e.quantities);
    to.experiments.push_back(std::move(e));
  }
  return {};
}

}  // namespace wattle::fidelity
