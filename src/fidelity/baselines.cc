#include "fidelity/baselines.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace wattle::fidelity {

double RivalPower::step(const StepShape& shape, double seconds) const {
  WATTLE_CHECK(rival.law != PowerLaw::Ours, "our power is the engine's");
  if (shape.idle()) return rival.idle_w * tp;
  if (rival.law == PowerLaw::ThreeConstants) return (shape.prefill_tokens > 0 ? rival.prefill_w : rival.decode_w) * tp;
  const double tokens = shape.decode_requests + static_cast<double>(shape.prefill_tokens);
  const double pairs = static_cast<double>(shape.decode_kv_tokens) + static_cast<double>(shape.prefill_context_tokens);
  const double flops = 2.0 * llm.active_parameters() * tokens + 4.0 * llm.layers * llm.heads * llm.head_dim * pairs;
  const double peak = llm.dtype == Dtype::Fp8 ? gpu.fp8_flops_per_s : gpu.bf16_flops_per_s;
  const double mfu = flops / seconds / (peak * tp);
  return tp * (rival.idle_w + (gpu.tdp.value() - rival.idle_w) * std::min(1.0, std::pow(mfu / 0.45, 0.7)));
}

}  // namespace wattle::fidelity
