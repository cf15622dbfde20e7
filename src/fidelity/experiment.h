#pragma once
// A published or measured row, and how to simulate it.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/hardware_profile.h"
#include "engine/step_model.h"
#include "model/hardware.h"

namespace wattle::fidelity {

/// A quantity that the row does not state, or that the model does not provide.
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Setup of a published experiment, from the scenario that repeats it.
struct Setup {
  engine::EngineOptions engine;
  double longest_tokens = 0.0;  ///< maximum length of the client's prompts and answers; 0 = no limit
};

/// All known specifications and profiles, by name.
struct Catalog {
  std::map<std::string, GpuSpec, std::less<>> gpus;
  std::map<std::string, LlmSpec, std::less<>> llms;
  std::map<std::string, engine::HardwareProfile, std::less<>> profiles;
  Setup voltanallm;
  engine::EngineOptions throttllem;  ///< its Llama-2-13B on two GPUs

  [[nodiscard]] const GpuSpec* gpu(std::string_view name) const;
  /// By a published name: "meta-llama/Llama-3.1-8B-Instruct" finds "llama-3.1-8b".
  [[nodiscard]] const LlmSpec* llm(std::string_view published) const;
};

/// Power models for comparison with ours; times are from our step model in all cases.
enum class PowerLaw : std::uint8_t {
  Ours,
  Mfu,             ///< Vidur-Energy: idle + (max - idle) x min(1, (mfu / 0.45)^0.7)
  ThreeConstants,  ///< one power each for idle, prompt and decode steps
};

/// Constants of the other power models, from the data sheet and from the fitted rows of the same set.
struct Rival {
  PowerLaw law = PowerLaw::Ours;
  double idle_w = 0.0;  ///< per GPU
  double prefill_w = 0.0;
  double decode_w = 0.0;
};

struct Quantity {
  std::string name;  ///< unit last: power_w, ttft_p99_ms
  double measured = 0.0;
};

/// The simulated values of an experiment, one per quantity (NaN: the run has none), and the range of conditions used.
struct Simulated {
  Simulated() = default;
  Simulated(std::vector<double> v) : values(std::move(v)) {}  // NOLINT: a bare list of values is one
  Simulated(std::vector<double> v, const engine::AskedRange& a) : values(std::move(v)), asked(a) {}
  std::vector<double> values;
  engine::AskedRange asked;
};

struct Experiment {
  std::string set;  ///< data set and, after a slash, its part
  std::string row;  ///< readable condition
  std::string gpu;
  std::vector<Quantity> quantities;
  std::int32_t tp = 1;   ///< GPUs of one instance
  bool fitted = false;   ///< may be used for fitting; false: never seen by it
  bool in_view = false;  ///< constants were chosen by hand with this row in view: counts as fitted, unused by fits
  std::string model;     ///< for leave_one_model_out; empty: not used there
  /// Error: why it cannot run according to our model.
  std::function<Result<Simulated>(const engine::HardwareProfile&, const Rival&)> simulate;
};

/// All experiments found in a data directory, and what is not among them: a row that is read is part of an experiment
/// or left out for a reason.
struct Collection {
  std::vector<Experiment> experiments;
  std::vector<std::string> missing;                                     ///< sets
  std::map<std::pair<std::string, std::string>, std::size_t> left_out;  ///< rows by set and reason

  /// Whether the set is there; lists it as missing if not.
  bool found(bool there, const std::string& set) {
    if (!there) missing.push_back(set);
    return there;
  }
  void leave_out(const std::string& set, const std::string& reason) { ++left_out[{set, reason}]; }
  /// A line for each missing set, and for each reason with its number of rows.
  [[nodiscard]] std::vector<std::string> absent() const;
};

/// Reads all known sets. Errors: a malformed file.
[[nodiscard]] Result<Collection> collect(const std::string& data, const Catalog& catalog);

// One reader per kind of set; each appends to `to`.
[[nodiscard]] Result<void> collect_kernels(const std::string& data, const Catalog& catalog, Collection& to);
[[nodiscard]] Result<void> collect_clock_sweep(const std::string& data, const Catalog& catalog, Collection& to);
[[nodiscard]] Result<void> collect_serving(const std::string& data, const Catalog& catalog, Collection& to);
[[nodiscard]] Result<void> collect_ml_energy_2024(const std::string& data, const Catalog& catalog, Collection& to);
[[nodiscard]] Result<void> collect_batches(const std::string& data, const Catalog& catalog, Collection& to);
[[nodiscard]] Result<void> collect_power_caps(const std::string& data, const Catalog& catalog, Collection& to);
[[nodiscard]] Result<void> collect_facts(const std::string& data, const Catalog& catalog, Collection& to);
[[nodiscard]] Result<void> collect_paper_tables(const std::string& data, const Catalog& catalog, Collection& to);
[[nodiscard]] Result<void> collect_profiles(const std::string& data, const Catalog& catalog, Collection& to);
[[nodiscard]] Result<void> collect_runs(const std::string& data, const Catalog& catalog, Collection& to);

/// The panels of VoltanaLLM's figure under `data`, by name: VoltanaLLM/paper_main_result_digitised*.csv, relative to
/// it.
[[nodiscard]] std::vector<std::string> voltanallm_panels(const std::string& data);

/// Constants were chosen by hand while looking at this model's panel.
[[nodiscard]] bool voltanallm_in_view(std::string_view llm);

/// The hold-out: one row in four, chosen by the row's text alone, so that a row always stays on its side.
[[nodiscard]] bool held_out(std::string_view set, std::string_view row);

/// The fold of a row in a cross-validation, also by its text.
[[nodiscard]] std::uint64_t fold_of(std::string_view set, std::string_view row, std::uint64_t folds);

/// Half of the rows of a set on which only client conventions were chosen by hand; these count as fitted.
[[nodiscard]] bool chose_conventions(std::string_view set, std::string_view row);

/// Rows of mixtures of experts that were used to choose the additional time of their prompts: the same half of three
/// models, and all of two others (docs/decisions/0019).
[[nodiscard]] bool chose_expert_times(std::string_view llm, std::string_view set, std::string_view row);

/// EngineOptions::expert_row_block of vLLM 0.11 and 0.12: DeepGEMM's alignment for 8-bit checkpoints with block-scaled
/// weights, which are all except Llama's (triton_deep_gemm_moe.py, deep_gemm_utils.py: compute_aligned_M()).
[[nodiscard]] std::int32_t vllm_expert_row_block(std::string_view llm, bool fp8);

/// Options of the benchmark runs behind the measured sets: the defaults, which are vLLM's.
[[nodiscard]] engine::EngineOptions benchmark_engine();

/// The same for clients that request greedy decoding, as vLLM's benchmark script does by default: no sampling.
[[nodiscard]] engine::EngineOptions greedy_engine();

/// The same with the CPU time per step of the Python loop of the vLLM of 2023 (16 ms): the median difference between
/// DistServe's fits for tensor-parallel decode at batch 16 and our step.
[[nodiscard]] engine::EngineOptions engine_of_2023();

/// Options of the H100 clock sweep. Its tokens per step are not published; of 512, 768, 1024 and 2048 the value that
/// fits the fitted rows best.
[[nodiscard]] engine::EngineOptions clock_sweep_engine();

}  // namespace wattle::fidelity
