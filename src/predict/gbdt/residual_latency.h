#pragma once
// EcoPred's lines, corrected by trees. In neither paper.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.h"
#include "model/beliefs.h"
#include "predict/gbdt/tree_table.h"

namespace wattle::predict {

/// What `lines` say plus what trees learnt that they leave over (ms; of prompts over (f, N_tok, N_ctx), of decodes over
/// (f, N_req, N_kv)), never below 0. The decode trees' part is made monotone in N_kv, as TreeTable does, so the sum is.
/// Immutable, thread-safe, no allocation after make().
class ResidualLatency final : public LatencyModel {
 public:
  /// `lines` not null. Errors: those of TreeTable.
  [[nodiscard]] static Result<ResidualLatency> make(std::shared_ptr<const LatencyModel> lines, const GbdtTrees& prefill,
                                                    const GbdtTrees& decode) {
    auto prompts = TreeTable::make(prefill, false);
    if (!prompts) return std::unexpected(prompts.error());
    auto decodes = TreeTable::make(decode, true);
    if (!decodes) return std::unexpected(decodes.error());
    return ResidualLatency(std::move(lines), std::move(*prompts), std::move(*decodes));
  }

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const auto mhz = static_cast<float>(clock.value());
    Span time = lines_->step_time(shape, clock);
    if (shape.prefill_tokens > 0) {
      time = time + Span(prefill_.at(mhz, static_cast<float>(shape.prefill_tokens),
                                     static_cast<float>(shape.prefill_context_tokens)));
    }
    if (shape.decode_requests > 0) {
      time = time + Span(decode_.at(mhz, static_cast<float>(shape.decode_requests),
                                    static_cast<float>(shape.decode_kv_tokens)));
    }
    return std::max(Span(), time);
  }

  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override {
    if (step_time(shape, clock) > budget) return shape.decode_kv_tokens;
    StepShape grown = shape;
    std::int64_t within = shape.decode_kv_tokens;
    std::int64_t beyond = std::max(kMost, within + 1);  // no batch holds so many
    while (within + 1 < beyond) {
      grown.decode_kv_tokens = within + (beyond - within) / 2;
      (step_time(grown, clock) > budget ? beyond : within) = grown.decode_kv_tokens;
    }
    return within;
  }

 private:
  static constexpr std::int64_t kMost = std::int64_t{1} << 32;

  ResidualLatency(std::shared_ptr<const LatencyModel> lines, TreeTable prefill, TreeTable decode)
      : lines_(std::move(lines)), prefill_(std::move(prefill)), decode_(std::move(decode)) {}

  std::shared_ptr<const LatencyModel> lines_;
  TreeTable prefill_;
  TreeTable decode_;
};

}  // namespace wattle::predict
