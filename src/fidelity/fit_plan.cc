#include "fidelity/fit_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/side_by_side.h"
#include "fidelity/least_squares.h"
#include "fidelity/relatives.h"

namespace wattle::fidelity {
namespace {

using engine::HardwareProfile;

struct Source {
  const char* set;       ///< part of the set's name
  const char* quantity;  ///< "" = any
  double weight;
  std::size_t stride;  ///< every n-th row
};

struct Stage {
  const char* name;
  const char* needs;  ///< part of a set's name without which the stage is left out
  std::vector<const char*> factors;
  std::vector<Source> sources;
  int other_starts = 0;  ///< where the rows leave several minima
};

/// Order of the fit: kernels give the rates, serving runs the overheads and the effect of the clock, power comes last.
const std::vector<Stage>& stages() {
  static const std::vector<Stage> all{
      {"kernels",
       "",
       {"tensor_efficiency", "tile_quantisation", "wave_offset", "memory_efficiency", "overlap_exponent",
        "kernel_ramp_s", "attention_ramp_s", "prefill_attention_efficiency", "prefill_attention_memory_efficiency",
        "decode_attention_efficiency", "decode_attention_head_s", "decode_attention_tail_waves",
        "decode_attention_tail_most"},
       {{"-gemm-bf16", "latency_ms", 1.0, 3},
        {"-context-attention", "latency_ms", 1.0, 3},
        {"-generation-attention", "latency_ms", 1.0, 3}}},
      {"all-reduce",
       "",
       {"allreduce_latency_s", "allreduce_pass_s", "allreduce_efficiency", "allreduce_size_exponent"},
       {{"-allreduce", "latency_ms", 1.0, 1}}},
      // Only the H100's 8-bit table has products short enough to show the ramp; the others' floors are launches.
      {"8-bit products", "", {"fp8_tensor_efficiency", "fp8_ramp_s"}, {{"h100-gemm-fp8", "latency_ms", 1.0, 3}}},
      {"8-bit rate", "", {"fp8_tensor_efficiency"}, {{"200-gemm-fp8", "latency_ms", 1.0, 1}}},
      {"serving framework",
       "",
       {"layer_overhead_s", "step_gap_s", "sampling_ns_per_logit"},
       {{"(kept busy)", "itl_p50_ms", 1.0, 1}}},
      {"overheads and clock dependence of time",
       "",
       {"layer_overhead_s", "elementwise_passes", "latency_clock_share", "memory_clock_share",
        "decode_attention_clock_share", "step_gap_s", "sampling_ns_per_logit"},
       {{"/clock-sweep", "tpot_p99_ms", 1.0, 1},
        {"/clock-sweep", "ttft_p99_ms", 1.0, 1},
        {"(kept busy)", "itl_p50_ms", 1.0, 1}},
       8},
      // A ratio between two clocks says nothing about time that no clock touches.
      {"clock dependence of time",
       "",
       {"latency_clock_share", "memory_clock_share", "decode_attention_clock_share"},
       {{"facts/", "time_ratio", 1.0, 1}}},
      // The slowdown under a power limit shows how much of the power follows the clock, and where the voltage stops
      // falling.
      {"time under a power limit",
       "",
       {"active_clock_share", "voltage_floor"},
       {{"-power-limit", "time_ratio", 1.0, 1}}},
      {"idle power",
       "",
       {"idle_floor_w", "idle_clock_w", "idle_clock_exponent"},
       {{"/idle", "power_w", 1.0, 1}, {"facts/", "idle_power_w", 1.0, 1}}},
      {"power against clock",
       "clock",  // needs a set with several clocks
       {"active_w", "busy_w", "sampling_activity", "tensor_pj_per_flop", "memory_pj_per_byte", "memory_voltage_share",
        "voltage_floor", "voltage_exponent"},
       {{"/clock-sweep", "power_w", 1.0, 2},
        {"(kept busy)", "power_w", 2.0, 1},
        {"/prefill-busy", "power_w", 0.7, 3},
        {"VoltanaLLM/fixed-clocks", "energy_j", 1.0, 4},
        {"facts/", "energy_ratio", 1.0, 1},
        {"facts/", "effective_mhz", 1.0, 1},
        {"facts/", "power_w", 1.0, 1}},
       8},
      // Rows at one clock, mostly of streaming kernels, do not separate a byte's energy from a busy unit's: a byte's is
      // the scaled value of the related card.
      {"power at the top clock",
       "200-gemm",
       {"active_w", "busy_w", "sampling_activity", "tensor_pj_per_flop"},
       {{"-gemm-bf16", "power_w", 1.0, 1},
        {"-gemm-bf16", "latency_ms", 1.0, 3},
        {"-gemm-fp8", "latency_ms", 1.0, 3},
        {"-generation-attention", "power_w", 0.5, 1},
        {"-context-attention", "power_w", 0.25, 1},
        {"(kept busy)", "power_w", 4.0, 1}}},  // as much weight as all kernels, because serving is what we simulate
  };
  return all;
}

struct Start {
  std::string_view gpu;
  double HardwareProfile::*factor;
  std::optional<double> value;  ///< absent: the value of the related card, or of `like`
  bool kept = false;            ///< no stage moves it
  const char* like = nullptr;   ///< another card, scaled to this one's power limit and memory
};
// Where the rows say nothing and a paper does. A100: no row's clock is below 1005 of 1410 MHz, where VoltanaLLM finds
// the optimum of both phases: there the voltage stops falling, and below only the time grows.
constexpr Start kStarts[] = {
    // B200: its rows of serving show tokens, not prompts, and a token's small kernels move next to nothing.
    {"b200", &HardwareProfile::elementwise_passes, std::nullopt, true},
    // A dozen rows do not separate a layer's small kernels from a step's CPU time (robust cost 0.66 and 0.70).
    {"b200", &HardwareProfile::layer_overhead_s, std::nullopt, true},
    {"a100-80g", &HardwareProfile::voltage_floor, 1005.0 / 1410.0, true},
    // A dozen rows of power do not separate a byte's energy from a busy unit's.
    {"a100-80g", &HardwareProfile::memory_pj_per_byte, std::nullopt, true, "h100"},
    {"a100-80g", &HardwareProfile::idle_floor_w, 54.0},
    {"a100-80g", &HardwareProfile::idle_clock_w, 14.0},
    {"a100-80g", &HardwareProfile::step_gap_s, 0.0},
    // SGLang's time per request of a step, which no fitted row determines: set by hand, with the pace of its decode
    // attention
    // (engine.decode_attention_efficiency of the scenario), so that the rates at which token gaps exceed 60 ms come
    // near
    // VoltanaLLM's with Llama-3.1-8B on both data sets, at both clocks.
    {"a100-80g", &HardwareProfile::request_gap_s, 6e-6},
    {"a100-80g", &HardwareProfile::sampling_ns_per_logit, 0.0}};

bool is_kept(std::string_view gpu, double HardwareProfile::*factor) {
  return std::ranges::any_of(
      kStarts, [&](const Start& start) { return start.gpu == gpu && start.factor == factor && start.kept; });
}

/// One experiment with the weight of each of its quantities.
struct Used {
  const Experiment* experiment = nullptr;
  std::vector<double> weights;
};

std::vector<Used> choose(const Stage& stage, std::string_view gpu, const std::vector<Experiment>& experiments,
                         std::vector<std::string>& notes) {
  std::map<const Experiment*, std::vector<double>> weights;
  for (const Source& source : stage.sources) {
    std::vector<std::pair<const Experiment*, std::size_t>> matches;
    std::size_t seen = 0;
    for (const Experiment& e : experiments) {
      if (!e.fitted || e.gpu != gpu || e.set.find(source.set) == std::string::npos) continue;
      for (std::size_t q = 0; q < e.quantities.size(); ++q) {
        if (e.quantities[q].name == source.quantity && seen++ % source.stride == 0) matches.emplace_back(&e, q);
      }
    }
    if (matches.empty()) continue;
    notes.push_back(
        fmt::format("{}: {} rows of {} {}", stage.name, matches.size(), matches.front().first->set, source.quantity));
    for (const auto& [e, q] : matches) {
      auto& w = weights[e];
      w.resize(e->quantities.size(), 0.0);
      w[q] = std::sqrt(source.weight / static_cast<double>(matches.size()));
    }
  }
  std::vector<Used> used;
  for (const Experiment& e : experiments) {  // in the experiments' order, so that sums do not depend on addresses
    if (const auto at = weights.find(&e); at != weights.end()) used.push_back({&e, at->second});
  }
  return used;
}

/// The rows of one stage for one kind of GPU, and the factors that it moves.
class StageProblem {
 public:
  StageProblem(const Stage& stage, std::string_view gpu, std::vector<Used> used, unsigned threads)
      : used_(std::move(used)), threads_(threads) {
    for (const char* key : stage.factors) {
      for (const engine::ProfileField& field : engine::profile_fields()) {
        if (std::string_view(field.key) == key && !is_kept(gpu, field.member)) fields_.push_back(field);
      }
    }
  }

  /// Moves the stage's factors of `profile`.
  FitResult fit(HardwareProfile& profile, int other_starts) const {
    std::vector<FitParameter> parameters;
    for (const engine::ProfileField& field : fields_) {
      const double start = profile.*(field.member);
      parameters.push_back({start, field.low, field.high, start, 0.02});
    }
    const auto of = [&](const std::vector<double>& values) { return residuals(with(profile, values)); };
    const FitResult result = fit_least_squares(parameters, of, {.scale = kLinear, .other_starts = other_starts});
    profile = with(profile, result.values);
    return result;
  }
  [[nodiscard]] double cost(const HardwareProfile& profile) const { return robust_cost(residuals(profile), kLinear); }

 private:
  static constexpr double kUnit = 10.0;   // residuals of a set add up to this squared per squared relative error
  static constexpr double kLinear = 0.2;  // beyond, outliers count linearly

  [[nodiscard]] HardwareProfile with(HardwareProfile profile, const std::vector<double>& values) const {
    for (std::size_t i = 0; i < fields_.size(); ++i) profile.*(fields_[i].member) = values[i];
    return profile;
  }
  [[nodiscard]] std::vector<double> residuals(const HardwareProfile& profile) const {
    std::vector<std::vector<double>> parts(used_.size());
    side_by_side(threads_, used_.size(), [&](std::size_t i) {
      const Experiment& e = *used_[i].experiment;
      const auto simulated = e.simulate(profile, Rival{});
      if (!simulated) return;
      const std::vector<double>& ours = simulated->values;
      for (std::size_t q = 0; q < ours.size(); ++q) {
        if (used_[i].weights[q] <= 0.0) continue;
        parts[i].push_back(std::log(ours[q] / e.quantities[q].measured) * used_[i].weights[q] * kUnit);
      }
    });
    std::vector<double> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }

  std::vector<Used> used_;
  std::vector<engine::ProfileField> fields_;
  unsigned threads_;
};

/// None: the kind has no rows for it. `notes`: the rows.
std::optional<StageProblem> problem_of(const Stage& stage, std::string_view gpu,
                                       const std::vector<Experiment>& experiments, unsigned threads,
                                       std::vector<std::string>& notes) {
  const bool wanted = std::ranges::any_of(experiments, [&](const Experiment& e) {
    return e.gpu == gpu && e.fitted && e.set.find(stage.needs) != std::string::npos;
  });
  if (!wanted) return std::nullopt;
  std::vector<Used> used = choose(stage, gpu, experiments, notes);
  if (used.empty()) return std::nullopt;
  return StageProblem(stage, gpu, std::move(used), threads);
}

void run_stage(const Stage& stage, std::string_view gpu, const std::vector<Experiment>& experiments, unsigned threads,
               FitOutcome& outcome) {
  const auto problem = problem_of(stage, gpu, experiments, threads, outcome.notes);
  if (!problem) return;
  const FitResult result = problem->fit(outcome.profile, stage.other_starts);
  outcome.notes.push_back(fmt::format("{}: robust cost {:.3f} -> {:.3f}", stage.name, result.cost_before, result.cost));
}

/// Ranges of the rows that may be fitted. Whole tables count, not only the rows that a stage uses.
void measured_range(std::string_view gpu, const std::vector<Experiment>& experiments, HardwareProfile& profile) {
  const HardwareProfile fitted = profile;
  const auto widen = [](double& to, auto value) { to = std::max(to, static_cast<double>(value)); };
  for (const Experiment& e : experiments) {
    if (!e.fitted || e.gpu != gpu) continue;
    const auto simulated = e.simulate(fitted, Rival{});
    if (!simulated || simulated->asked.clock_high_mhz == 0) continue;
    const engine::AskedRange& asked = simulated->asked;
    widen(profile.measured_requests, asked.requests);
    widen(profile.measured_context_tokens, asked.context_tokens);
    widen(profile.measured_step_tokens, asked.step_tokens);
    widen(profile.measured_tensor_parallel, e.tp);
    widen(profile.measured_clock_high_mhz, asked.clock_high_mhz);
    double& low = profile.measured_clock_low_mhz;
    low = low > 0.0 ? std::min<double>(low, asked.clock_low_mhz) : asked.clock_low_mhz;
  }
}

bool experiments_with_kernel_power(std::string_view gpu, const std::vector<Experiment>& experiments) {
  return std::ranges::any_of(experiments, [&](const Experiment& e) {
    return e.gpu == gpu && e.set.find("-gemm-bf16") != std::string::npos && e.quantities.size() > 1;
  });
}

}  // namespace

std::map<std::string, double> stage_costs(const engine::HardwareProfile& profile,
                                          const std::vector<Experiment>& experiments, unsigned threads) {
  std::map<std::string, double> costs;
  std::vector<std::string> notes;
  for (const Stage& stage : stages()) {
    const auto problem = problem_of(stage, profile.gpu, experiments, threads, notes);
    if (problem) costs[stage.name] = problem->cost(profile);
  }
  return costs;
}

std::vector<std::string> fit_order(const Catalog& catalog, const std::vector<std::string>& wanted) {
  std::set<std::string> needed(wanted.begin(), wanted.end());
  for (bool grown = true; grown;) {
    grown = false;
    for (const Relative& relative : kRelatives) {
      if (needed.contains(relative.gpu)) grown = needed.insert(relative.from).second || grown;
    }
  }
  std::vector<std::string> order;
  for (const char* first : {"h100", "h200", "b200", "a100-80g"}) {
    if (catalog.gpus.contains(first)) order.emplace_back(first);
  }
  for (const auto& [name, gpu] : catalog.gpus) {
    if (std::ranges::find(order, name) == order.end()) order.push_back(name);
  }
  if (!wanted.empty()) std::erase_if(order, [&](const std::string& name) { return !needed.contains(name); });
  return order;
}

FitOutcome fit_gpu(std::string_view gpu, const Catalog& catalog, const std::vector<Experiment>& experiments,
                   unsigned threads) {
  FitOutcome outcome;
  const GpuSpec& spec = *catalog.gpu(gpu);
  const auto relative = std::ranges::find(kRelatives, gpu, [](const Relative& r) { return std::string_view(r.gpu); });
  if (relative != std::end(kRelatives)) {
    const auto from = catalog.profiles.find(relative->from);
    if (from != catalog.profiles.end()) {
      outcome.profile = scaled_to(spec, from->second, *catalog.gpu(relative->from), relative->same_die);
    }
  }
  outcome.profile = without_rows(outcome.profile, gpu);
  for (const Start& start : kStarts) {
    if (start.gpu != gpu) continue;
    if (start.value) outcome.profile.*(start.factor) = *start.value;
    if (start.like == nullptr) continue;
    const auto like = catalog.profiles.find(start.like);
    if (like == catalog.profiles.end()) continue;
    const HardwareProfile scaled = scaled_to(spec, like->second, *catalog.gpu(start.like), false);
    outcome.profile.*(start.factor) = scaled.*(start.factor);
  }
  for (const Stage& stage : stages()) run_stage(stage, gpu, experiments, threads, outcome);
  if (experiments_with_kernel_power(gpu, experiments)) {
    // Power decides the clock at which those long kernels ran: rates and power again, each under the other.
    outcome.notes.emplace_back("rates and power again, each under the other");
    run_stage(stages().front(), gpu, experiments, threads, outcome);
    run_stage(stages().back(), gpu, experiments, threads, outcome);
    // Nor does one clock say what of it follows the clock: as much as of the relative's kernels.
    if (relative != std::end(kRelatives)) {
      const auto from = catalog.profiles.find(relative->from);
      if (from != catalog.profiles.end() && from->second.active_w + from->second.busy_w > 0.0) {
        outcome.profile.active_clock_share = from->second.busy_w / (from->second.active_w + from->second.busy_w);
      }
    }
  }
  measured_range(gpu, experiments, outcome.profile);
  for (const auto& [stage, cost] : stage_costs(outcome.profile, experiments, threads)) {
    outcome.notes.push_back(fmt::format("{}: robust cost {:.3f} after all stages", stage, cost));
  }
  std::set<std::string> sets;
  for (const std::string& note : outcome.notes) {
    const auto at = note.find(" rows of ");
    if (at != std::string::npos) sets.insert(note.substr(at + 9, note.find('/', at) - at - 9));
  }
  if (sets.empty()) {
    outcome.provenance =
        relative == std::end(kRelatives)
            ? "No measurement of this GPU: default factors"
            : fmt::format("No row of this GPU was fitted: factors of {}, power scaled to its TDP{}", relative->from,
                          relative->same_die ? ", the knee of memory-bound time to its bandwidth" : "");
  } else {
    std::string names;
    for (const std::string& set : sets) names += (names.empty() ? "" : ", ") + set;
    outcome.provenance = fmt::format("Fitted on rows of {}", names);
    if (relative != std::end(kRelatives)) {
      outcome.provenance += fmt::format("; factors these do not show come from {}", relative->from);
    }
  }
  return outcome;
}

}  // namespace wattle::fidelity
