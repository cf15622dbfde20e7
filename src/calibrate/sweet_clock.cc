#include "calibrate/sweet_clock.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace wattle::calibrate {

namespace {

constexpr std::int64_t kPromptTokens = 2048;
constexpr std::int64_t kPrompt = 256;
constexpr std::int64_t kBatch = 128;
constexpr std::int64_t kContext = 1024;
constexpr std::ptrdiff_t kStride = 9;

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
  const auto effort_at = [&](MegaHertz clock) {
    if (role == Role::Prefill) {
      const auto step = model.mixed(prompts, clock);
      return effort(step.duration, step.power);
    }
    const auto line = model.decode(static_cast<std::int32_t>(batch), kv, clock);
    return effort(line.base + line.slope * kv, line.power);
  };
  // Each clock costs the model a table, so every ninth clock is tried first, then twice those around the best.
  const auto clocks = supported_clocks(model.gpu());
  const auto count = static_cast<std::ptrdiff_t>(clocks.size());
  std::map<std::ptrdiff_t, double> efforts;
  std::ptrdiff_t best = count - 1;
  for (std::ptrdiff_t stride = kStride, low = 0, high = count - 1; stride > 0; stride /= 3) {
    for (std::ptrdiff_t i = low; i <= high; i += stride) {
      if (!efforts.contains(i)) efforts[i] = effort_at(clocks[static_cast<std::size_t>(i)]);
    }
    best = std::ranges::min_element(efforts, {}, [](const auto& e) { return e.second; })->first;
    low = std::max<std::ptrdiff_t>(0, best - stride);
    high = std::min(count - 1, best + stride);
  }
  return clocks[static_cast<std::size_t>(best)];
}

void set_sweet_spot(InstanceSpec& spec, const engine::StepModel& model, const engine::EngineOptions& options) {
  spec.sweet_clock = sweet_clock(model, options, spec.role);
  spec.measured_from = model.measured_from() <= spec.sweet_clock ? model.measured_from() : MegaHertz{0};
}

}  // namespace wattle::calibrate
