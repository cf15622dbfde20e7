#pragma once
// EcoPred, the boosted form (GreenServe): a linear booster (published) or trees for prefill, trees for decode.
#include <cstdint>
#include <span>
#include <utility>
#include <variant>

#include "base/error.h"
#include "model/beliefs.h"
#include "predict/gbdt/tree_table.h"
#include "predict/gbdt/trees.h"

namespace wattle::predict {

/// T_P = w_f f + w_n N_tok + b, in ms, or the sum of trees over (f, N_tok, N_ctx); T_D = the sum of trees over (f,
/// N_req, N_kv). Trees are evaluated through their TreeTable, whose rows kv_tokens_within walks exactly. A step with
/// both phases takes T_P + T_D. Immutable, thread-safe, no allocation after make().
class GbdtLatency final : public LatencyModel {
 public:
  using Target = TreeTable::Target;

  /// `target`: meaning of the decode trees' sum. Errors: not exactly two prefill weights (clock, tokens); those of
  /// TreeTable.
  [[nodiscard]] static Result<GbdtLatency> make(LinearBooster prefill, const GbdtTrees& decode,
                                                Target target = Target::Milliseconds);
  [[nodiscard]] static Result<GbdtLatency> make(const GbdtTrees& prefill, const GbdtTrees& decode);

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override;
  void decode_times(std::span<const std::int32_t> requests, std::span<const std::int64_t> kv_tokens, MegaHertz clock,
                    std::span<Span> out) const override {
    decode_.many(static_cast<float>(clock.value()), requests, kv_tokens, out);
  }
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override;

  [[nodiscard]] std::size_t cells() const { return decode_.cells(); }

 private:
  using Prefill = std::variant<LinearBooster, TreeTable>;
  GbdtLatency(Prefill prefill, TreeTable decode) : prefill_(std::move(prefill)), decode_(std::move(decode)) {}
  [[nodiscard]] Span prefill_time(const StepShape& shape, MegaHertz clock) const;
  [[nodiscard]] const std::int64_t* decode_row(const StepShape& shape, MegaHertz clock) const;

  Prefill prefill_;
  TreeTable decode_;
};

}  // namespace wattle::predict
