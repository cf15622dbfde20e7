#include "engine/extrapolation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace wattle::engine {

std::vector<std::string> extrapolations(const HardwareProfile& profile, std::int32_t tensor_parallel,
                                        const AskedRange& asked) {
  std::vector<std::string> found;
  if (asked.clock_high_mhz == 0) return found;
  if (profile.measured_clock_high_mhz <= 0.0) {
    found.push_back(fmt::format("{}: no measurement of this GPU, its factors are a relative's", profile.gpu));
    return found;
  }
  const auto beyond = [&](const char* what, double value, double measured) {
    if (value <= measured) return;
    if (measured > 0.0) {
      found.push_back(fmt::format("{}: {} of {:.0f}, measured up to {:.0f}", profile.gpu, what, value, measured));
    } else {
      found.push_back(fmt::format("{}: {} of {:.0f}, never measured", profile.gpu, what, value));
    }
  };
  beyond("a decode batch", static_cast<double>(asked.requests), profile.measured_requests);
  beyond("a mean context", static_cast<double>(asked.context_tokens), profile.measured_context_tokens);
  beyond("prompt tokens in a step", static_cast<double>(asked.step_tokens), profile.measured_step_tokens);
  beyond("a tensor_parallel", tensor_parallel, profile.measured_tensor_parallel);
  if (asked.clock_low_mhz < profile.measured_clock_low_mhz) {
    found.push_back(fmt::format("{}: locked at {} MHz, measured down to {:.0f}", profile.gpu, asked.clock_low_mhz,
                                profile.measured_clock_low_mhz));
  }
  beyond("a clock in MHz", asked.clock_high_mhz, profile.measured_clock_high_mhz);
  return found;
}

std::vector<std::string> unmeasured(const GpuSpec& gpu, const LlmSpec& llm, const Parallelism& parallel) {
  // Where aiconfigurator's end-to-end samples or ML.ENERGY's runs have a row of it (src/fidelity/serving_sets.cc).
  using Gpus = std::array<std::string_view, 4>;
  constexpr Gpus kNowhere{};
  constexpr Gpus kThree{"h100", "h200", "b200"};
  constexpr Gpus kTwo{"h200", "b200"};
  constexpr Gpus kFour{"a100-40g", "h100", "h200", "b200"};
  std::vector<std::string> found;
  const auto note = [&](bool has, const Gpus& measured, std::string_view what) {
    if (has && std::ranges::find(measured, gpu.name) == measured.end()) {
      found.push_back(fmt::format("{}: {}, never measured", gpu.name, what));
    }
  };
  const bool four = four_bits(llm.dtype) || four_bits(llm.attention_dtype()) || four_bits(llm.expert_dtype());
  const bool eight = llm.dtype == Dtype::Fp8 || llm.attention_dtype() == Dtype::Fp8 || llm.expert_dtype() == Dtype::Fp8;
  note(llm.experts > 1, kFour, "a mixture of experts");
  note(llm.kv_dtype == Dtype::Fp8, kThree, "an 8-bit KV cache");
  note(llm.latent_attention(), kTwo, "latent attention");
  note(llm.windowed_layers > 0, kThree, "sliding-window attention");
  note(four, kThree, "4-bit weights");
  note(eight && gpu.fp8_flops_per_s <= 0.0, kNowhere, "8-bit weights without units for them");
  note(llm.expert_skew > 0.0, kNowhere, "experts chosen unevenly (expert_skew)");
  note(parallel.pipeline > 1, kNowhere, "pipeline parallelism");
  note(parallel.expert > 1, kThree, "expert parallelism");
  note(parallel.data > 1, kTwo, "data parallelism");
  return found;
}

}  // namespace wattle::engine
