#include "calibrate/live/grid.h"

namespace wattle::calibrate {

using predict::StepKind;

Grid product_grid(std::span<const std::int32_t> concurrency, std::span<const std::int32_t> prompts,
                  std::span<const std::int32_t> outputs, std::span<const std::int32_t> prefill_prompts,
                  std::span<const std::int32_t> contexts) {
  Grid grid;
  for (const std::int32_t prompt : prefill_prompts) grid.cells.push_back({StepKind::Prefill, 1, prompt, 1, 0.0});
  for (const std::int32_t context : contexts) {
    for (const std::int32_t prompt : prefill_prompts) {
      if (context / kLeastContext >= prompt) grid.cells.push_back({StepKind::Prefill, 1, prompt, 1, 0.0, context});
    }
  }
  for (const std::int32_t n : concurrency) {
    for (const std::int32_t prompt : prompts) {
      for (const std::int32_t output : outputs) grid.cells.push_back({StepKind::Decode, n, prompt, output, 0.0});
    }
  }
  return grid;
}

Grid voltanallm_grid() {
  constexpr std::int32_t kPrompt = 280;
  constexpr std::int32_t kOutput = 100;
  Grid grid;
  for (const std::int32_t mhz : {1005, 1095, 1200, 1305, 1410}) grid.clocks.emplace_back(mhz);
  for (int rate = 10; rate <= 80; rate += 10) grid.cells.push_back({StepKind::Prefill, 1, kPrompt, 1, double(rate)});
  const auto add = [&](std::int32_t n) {
    for (const std::int32_t batch : {n, n + 1}) grid.cells.push_back({StepKind::Decode, batch, kPrompt, kOutput, 0.0});
  };
  for (std::int32_t n = 8; n <= 128; n += 8) add(n);
  for (std::int32_t n = 256; n <= 1024; n += 128) add(n);
  return grid;
}

Grid throttllem_grid(std::span<const std::int32_t> batches, std::int64_t kv_tokens) {
  Grid grid;
  grid.draws_clocks = true;
  for (const std::int32_t batch : batches) {
    const auto each = static_cast<std::int64_t>(static_cast<double>(kv_tokens) * kFilled) / batch;
    if (each <= kLeastOutput) continue;
    grid.cells.push_back({StepKind::Decode, batch, 1, static_cast<std::int32_t>(each - 1), 0.0});
  }
  return grid;
}

void thin(Grid& grid, std::size_t most) {
  if (most == 0) return;
  std::vector<Cell> kept;
  for (const StepKind phase : {StepKind::Prefill, StepKind::Decode}) {
    std::vector<Cell> all;
    for (const Cell& cell : grid.cells) {
      if (cell.phase == phase) all.push_back(cell);
    }
    if (all.size() <= most) {
      kept.insert(kept.end(), all.begin(), all.end());
      continue;
    }
    for (std::size_t i = 0; i < most; ++i) kept.push_back(all[most == 1 ? 0 : i * (all.size() - 1) / (most - 1)]);
  }
  grid.cells = std::move(kept);
}

}  // namespace wattle::calibrate
