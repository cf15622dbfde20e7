// Recipe, GPU and LLM files: accepted ones must be valid for their users.
#include <cmath>

#include "base/file.h"
#include "config/load.h"
#include "fuzz.h"
#include "policy/admission/bounded.h"
#include "policy/frequency/eco_freq.h"
#include "systems/recipe.h"

namespace wattle::fuzz {

namespace {
bool positive(double v) { return std::isfinite(v) && v > 0.0; }

std::string broken_rule(const systems::Recipe& r) {
  for (const auto* choice : {&r.prefill_frequency, &r.decode_frequency}) {
    if (choice->policy != "eco-freq") continue;
    const auto f = systems::options_of<policy::EcoFreqOptions>(*choice);
    if (!std::isfinite(f.margin) || f.margin < 0.0 || f.margin > 1.0) return "a margin outside 0 to 1 was accepted";
    if (f.dwell < Span()) return "a negative dwell was accepted";
    if (f.clocks.empty()) return "EcoFreq without clocks was accepted";
    for (const ClockSetting& clock : f.clocks) {
      if (clock == ClockSetting(MegaHertz{0})) return "a clock of 0 was accepted";
    }
  }
  if (r.admission.policy == "bounded" &&
      systems::options_of<policy::BoundedAdmissionOptions>(r.admission).max_held < 0) {
    return "a negative queue bound was accepted";
  }
  return "";
}

std::string broken_rule(const GpuSpec& g) {
  if (g.clock_min.value() <= 0 || g.clock_max < g.clock_min || g.clock_step.value() <= 0) {
    return "clocks that are no range were accepted";
  }
  if (!positive(g.tdp.value()) || !positive(g.memory_bytes) || !positive(g.memory_bandwidth_bytes_per_s)) {
    return "a GPU without power, memory or bandwidth was accepted";
  }
  return positive(g.bf16_flops_per_s) && g.sm_count > 0 ? "" : "a GPU that computes nothing was accepted";
}

std::string broken_rule(const LlmSpec& m) {
  if (m.layers < 1 || m.hidden < 1 || m.heads < 1 || m.kv_heads < 1 || m.head_dim < 1 || m.ffn < 1 || m.vocab < 1) {
    return "a model with a dimension below 1 was accepted";
  }
  if (m.experts < 1 || m.experts_per_token < 1 || m.experts_per_token > m.experts) {
    return "experts that do not add up were accepted";
  }
  if (m.experts > 1 && m.moe_layers() < 1) return "experts in no layer were accepted";
  if ((m.windowed_layers > 0) != (m.sliding_window > 0) || m.windowed_layers > m.layers) {
    return "windows that do not add up were accepted";
  }
  if (!positive(m.kv_bytes_per_token()) || !positive(m.active_parameters())) return "a model without KV was accepted";
  return positive(m.weight_bytes()) ? "" : "a model without weight was accepted";
}

template <typename T>
Verdict judge(const Result<T>& loaded) {
  if (!loaded) return rejected(loaded.error(), "fuzz");
  if constexpr (requires { loaded->recipe; }) {
    return {true, broken_rule(loaded->recipe)};
  } else {
    return {true, broken_rule(*loaded)};
  }
}
}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const char* file :
       {"/recipes/eco-freq.toml", "/recipes/idle-parking.toml", "/specs/gpus/h100.toml", "/specs/llms/qwen3-8b.toml"}) {
    if (auto text = read_file(WATTLE_FUZZ_ROOT + std::string(file))) texts.push_back(std::move(*text));
  }
  texts.emplace_back(
      R"({"model_type":"gemma3","text_config":{"hidden_size":64,"intermediate_size":96,"num_attention_heads":4,)"
      R"("num_hidden_layers":2,"num_key_value_heads":2,"vocab_size":99,"layer_types":["sliding_attention","full_attention"],)"
      R"("sliding_window":8,"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":32},)"
      R"("quantization_config":{"quant_method":"fp8","ignore":["self_attn"]}})");
  return texts;
}

Verdict parse(std::string_view input) {
  Verdict verdict;
  for (const Verdict& one :
       {judge(systems::recipe_from_text(input, "fuzz", {})), judge(config::gpu_from_text(input, "fuzz")),
        judge(config::llm_from_text(input, "fuzz"))}) {
    if (!one.broken_rule.empty()) return one;
    verdict.accepted |= one.accepted;
  }
  return verdict;
}

}  // namespace wattle::fuzz
