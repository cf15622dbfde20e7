#include "fidelity/experiment.h"

#include <fmt/format.h>

namespace wattle::fidelity {

const GpuSpec* Catalog::gpu(std::string_view name) const {
  const auto at = gpus.find(name);
  return at == gpus.end() ? nullptr : &at->second;
}

std::vector<std::string> Collection::absent() const {
  std::vector<std::string> lines;
  for (const std::string& set : missing) lines.push_back(fmt::format("{} (not found)", set));
  for (const auto& [of, rows] : left_out) {
    lines.push_back(fmt::format("{} ({} row{}: {})", of.first, rows, rows == 1 ? "" : "s", of.second));
  }
  return lines;
}

namespace {
std::uint64_t hash(std::string_view set, std::string_view row) {
  std::uint64_t h = 14695981039346656037ULL;  // FNV-1a, then mixed: its low bits alone are weak
  for (const std::string_view part : {set, std::string_view("|"), row}) {
    for (const char c : part) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  return h;
}
}  // namespace

bool held_out(std::string_view set, std::string_view row) { return hash(set, row) % 4 == 0; }

std::uint64_t fold_of(std::string_view set, std::string_view row, std::uint64_t folds) {
  return (hash(set, row) >> 16) % folds;
}

bool chose_conventions(std::string_view set, std::string_view row) { return hash(set, row) % 2 == 0; }

bool chose_expert_times(std::string_view llm, std::string_view set, std::string_view row) {
  if (llm == "qwen3-235b-a22b" || llm == "kimi-k2") return true;
  return (llm == "deepseek-v3" || llm == "gpt-oss-120b" || llm == "minimax-m2") && chose_conventions(set, row);
}

engine::EngineOptions benchmark_engine() { return {}; }

std::int32_t vllm_expert_row_block(std::string_view llm, bool fp8) {
  return fp8 && !llm.starts_with("llama") ? 128 : 1;
}

engine::EngineOptions engine_of_2023() {
  engine::EngineOptions options = benchmark_engine();
  options.step_gap = Span::ms(16);
  return options;
}

engine::EngineOptions greedy_engine() {
  engine::EngineOptions options = benchmark_engine();
  options.request_gap = Span();
  return options;
}

engine::EngineOptions clock_sweep_engine() {
  engine::EngineOptions options = greedy_engine();
  options.max_num_batched_tokens = 768;
  return options;
}

Result<Collection> collect(const std::string& data, const Catalog& catalog) {
  Collection all;
  for (const auto reader :
       {collect_kernels, collect_clock_sweep, collect_serving, collect_ml_energy_2024, collect_runs, collect_batches,
        collect_power_caps, collect_profiles, collect_paper_tables, collect_facts}) {
    if (auto ok = reader(data, catalog, all); !ok) return std::unexpected(ok.error());
  }
  return all;
}

}  // namespace wattle::fidelity
