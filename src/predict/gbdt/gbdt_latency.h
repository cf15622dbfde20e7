#pragma once
// EcoPred, the boosted form (GreenServe): a linear booster for prefill, trees for decode.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/beliefs.h"
#include "predict/gbdt/trees.h"

namespace wattle::predict {

/// T_P = w_f f + w_n N_tok + b, in ms. T_D = the trees' sum in ms, compiled: an ensemble is constant between
/// thresholds, so all of it is one table over (clock, N_req, N_kv) cells; a prediction is three short searches and one
/// load, and kv_tokens_within walks a row's thresholds exactly. Trees need not be monotone in N_kv as LatencyModel
/// promises; each row takes the middle of its running maximum and its running minimum from the far end, which is. A
/// step with both phases takes T_P(N_tok) + T_D. Immutable, thread-safe, no allocation after make().
class GbdtLatency final : public LatencyModel {
 public:
  static constexpr std::size_t kMostCells = std::size_t{1} << 22;
  /// What the decode trees' sum is.
  enum class Target : std::uint8_t {
    Milliseconds,  ///< of an iteration
    Rate,          ///< iterations per second (throttLL'eM's M); at or below 0: longer than anyone believes
  };

  /// Errors: other than two prefill weights (clock, tokens); more than 4 Mi cells (thresholds are too many: train with
  /// histogram bins).
  [[nodiscard]] static Result<GbdtLatency> make(LinearBooster prefill, const GbdtTrees& decode,
                                                Target target = Target::Milliseconds);

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override;
  void decode_times(std::span<const std::int32_t> requests, std::span<const std::int64_t> kv_tokens, MegaHertz clock,
                    std::span<Span> out) const override;
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override;

  [[nodiscard]] std::size_t cells() const { return table_.size(); }

 private:
  GbdtLatency() = default;
  [[nodiscard]] Span prefill_time(const StepShape& shape, MegaHertz clock) const;
  [[nodiscard]] const std::int64_t* row(const StepShape& shape, MegaHertz clock) const;

  LinearBooster prefill_;
  std::vector<float> clock_at_;      ///< thresholds, ascending; cell i holds [at[i-1], at[i])
  std::vector<float> request_at_;    ///< likewise
  std::vector<float> kv_at_;         ///< likewise
  std::vector<std::int64_t> table_;  ///< ns, [clock][requests][kv]
};

}  // namespace wattle::predict
