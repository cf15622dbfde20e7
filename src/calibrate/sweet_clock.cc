#include "calibrate/sweet_clock.h"

#include <algorithm>

namespace wattle::calibrate {

namespace {

constexpr std::int64_t kPromptTokens = 2048;
constexpr std::int64_t kPrompt = 256;
constexpr std::int64_t kBatch = 128;
constexpr std::int64_t kContext = 1024;

/// Proportional to the energy of the step.
double effort(std::int64_t duration, Milliwatts power) {
  return static_cast<double>(duration) * static_cast<double>(power.value());
}

}  // namespace

MegaHertz sweet_clock(const engine::StepModel& model, const engine::EngineOptions& options, Role role) {
  StepShape prompts;
  for (std::int64_t left = std::min<std::int64_t>(kPromptTokens, options.max_num_batched_tokens); left > 0;
       left -= kPrompt) {
    const std::int64_t chunk = std::min(left, kPrompt);
    ++prompts.prefill_requests;
    prompts.prefill_tokens += chunk;
    prompts.prefill_context_tokens += chunk * (chunk / 2);
  }
  const std::int64_t capacity = model.kv_blocks() * options.block_size;
  const std::int64_t batch =
      std::max<std::int64_t>(1, std::min({kBatch, std::int64_t{options.max_num_seqs}, capacity / kContext}));
  const std::int64_t kv = std::min(batch * kContext, capacity);
  MegaHertz best = model.gpu().clock_max;
  double least = 0.0;
  for (const MegaHertz clock : supported_clocks(model.gpu())) {
    double now = 0.0;
    if (role == Role::Prefill) {
      const auto step = model.mixed(prompts, clock);
      now = effort(step.duration, step.power);
    } else {
      const auto line = model.decode(static_cast<std::int32_t>(batch), kv, clock);
      now = effort(line.base + line.slope * kv, line.power);
    }
    if (least > 0.0 && now >= least) continue;
    least = now;
    best = clock;
  }
  return best;
}

}  // namespace wattle::calibrate
