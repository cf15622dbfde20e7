#pragma once
// Estimates prompt lengths before an engine has counted them: a model's tokens per byte of text, learned from its
// engines' counts.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "control/fleet_loop.h"
#include "net/openai.h"

namespace wattle::gateway {

/// Any thread. An update may be lost if two threads learn at once; the next request brings another.
class PromptScale {
 public:
  static constexpr double kTokensPerByte = 0.25;        ///< of English, until something has been counted
  static constexpr std::int64_t kMediaTokens = 576;     ///< an image of 336 x 336 in LLaVA's patches of 14 x 14
  static constexpr std::int64_t kMostTokens = 1 << 30;  ///< whatever it says: sums of a few fit 32 bits
  static constexpr std::int64_t kLeastBytes = 64;       ///< in shorter texts, a chat template's own tokens dominate

  [[nodiscard]] std::int32_t tokens(std::size_t model, const net::PromptSize& prompt) const {
    const double text = static_cast<double>(prompt.bytes) * rate(model);
    const auto whole = static_cast<std::int64_t>(text + 0.999) + prompt.ids + prompt.media * kMediaTokens;
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(whole, 1, kMostTokens));
  }
  void learn(std::size_t model, const net::PromptSize& prompt, std::int64_t counted) {
    if (prompt.media > 0 || prompt.bytes < kLeastBytes || counted <= prompt.ids) return;
    const double seen = static_cast<double>(counted - prompt.ids) / static_cast<double>(prompt.bytes);
    const double before = rate(model);
    rates_[model].store(before + kShare * (std::clamp(seen, 0.01, 4.0) - before), std::memory_order_relaxed);
  }

 private:
  static constexpr double kShare = 1.0 / 32;
  [[nodiscard]] double rate(std::size_t model) const {
    const double rate = rates_[model].load(std::memory_order_relaxed);
    return rate > 0.0 ? rate : kTokensPerByte;
  }
  std::array<std::atomic<double>, control::kMostModels> rates_{};  ///< 0: nothing learned
};

}  // namespace wattle::gateway
