#pragma once
// EcoPred's lines, corrected by trees. In neither paper.
#include <cstddef>
#include <cstdint>
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

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override;
  /// Walks the decode trees' cells, and asks the lines within the last.
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override;

 private:
  ResidualLatency(std::shared_ptr<const LatencyModel> lines, TreeTable prefill, TreeTable decode)
      : lines_(std::move(lines)), prefill_(std::move(prefill)), decode_(std::move(decode)) {}
  /// What the prefill trees add.
  [[nodiscard]] Span prefill_rest(const StepShape& shape, MegaHertz clock) const;
  /// The smallest KV tokens in this cell of the decode trees.
  [[nodiscard]] std::int64_t first_of(std::size_t cell) const;

  std::shared_ptr<const LatencyModel> lines_;
  TreeTable prefill_;
  TreeTable decode_;
};

}  // namespace wattle::predict
