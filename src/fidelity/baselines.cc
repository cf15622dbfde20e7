#include "fidelity/baselines.h"

#include <algorithm>
#include <cmath>

namespace wattle::fidelity {

double active_parameters(const LlmSpec& llm) {
  return llm.layers * (llm.attention_parameters() + llm.experts_per_token * llm.expert_parameters()) +
         static_cast<double>(llm.vocab) * llm.hidden;
}

double RivalPower::step(const void* self, const StepShape& shape, double seconds, double ours_w) {
  const auto& s = *static_cast<const RivalPower*>(self);
  switch (s.rival.law) {
    case PowerLaw::Ours:
      return ours_w;
    case PowerLaw::Mfu: {
      if (shape.idle()) return s.rival.idle_w * s.tp;
      const double tokens = shape.decode_requests + static_cast<double>(shape.prefill_tokens);
      const double pairs =
          static_cast<double>(shape.decode_kv_tokens) + static_cast<double>(shape.prefill_context_tokens);
      const double flops =
          2.0 * active_parameters(s.llm) * tokens + 4.0 * s.llm.layers * s.llm.heads * s.llm.head_dim * pairs;
      const double peak = s.llm.dtype == Dtype::Fp8 ? s.gpu.fp8_flops_per_s : s.gpu.bf16_flops_per_s;
      const double mfu = flops / seconds / (peak * s.tp);
      return s.tp * (s.rival.idle_w + (s.gpu.tdp.value() - s.rival.idle_w) * std::min(1.0, std::pow(mfu / 0.45, 0.7)));
    }
    case PowerLaw::ThreeConstants:
      if (shape.idle()) return s.rival.idle_w * s.tp;
      return (shape.prefill_tokens > 0 ? s.rival.prefill_w : s.rival.decode_w) * s.tp;
  }
  return ours_w;
}

}  // namespace wattle::fidelity
