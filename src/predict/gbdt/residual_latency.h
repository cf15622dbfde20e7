#pragma once
// EcoPred's linear form, corrected by trees. Ours; in neither paper.
#include <cstdint>
#include <memory>
#include <utility>

#include "base/error.h"
#include "model/beliefs.h"
#include "predict/gbdt/kv_steps.h"
#include "predict/gbdt/tree_table.h"
#include "predict/linear_latency.h"

namespace wattle::predict {

/// `lines` plus trees trained on its residuals (ms; for prompts over (f, N_tok, N_ctx), for decodes over (f, N_req,
/// N_kv) as KvSteps), never below 0. Immutable, thread-safe, no allocation after make().
class ResidualLatency final : public LatencyModel {
 public:
  /// `lines` not null. Errors: those of TreeTable.
  [[nodiscard]] static Result<ResidualLatency> make(std::shared_ptr<const LinearLatency> lines,
                                                    const GbdtTrees& prefill, const GbdtTrees& decode);

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override;
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override;

 private:
  ResidualLatency(std::shared_ptr<const LinearLatency> lines, TreeTable prefill, KvSteps decode)
      : lines_(std::move(lines)), prefill_(std::move(prefill)), decode_(std::move(decode)) {}
  /// The prefill trees' correction.
  [[nodiscard]] Span prefill_rest(const StepShape& shape, MegaHertz clock) const;

  std::shared_ptr<const LinearLatency> lines_;
  TreeTable prefill_;
  KvSteps decode_;
};

}  // namespace wattle::predict
