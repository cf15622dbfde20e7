#pragma once
// The trees' correction of the linear model of decode steps, as a function of KV tokens.
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/wide.h"
#include "predict/gbdt/trees.h"
#include "predict/linear_latency.h"

namespace wattle::predict {

/// The trees' sum is a step function of KV tokens. It may reduce the time where the linear model is too steep, but the
/// total must not fall with more KV tokens, as LatencyModel requires. Where it would, it is replaced by the mean of its
/// running maximum and its running minimum from the other end, which is monotone and unbiased. Only for the clocks on
/// which the linear model was fitted, where its slope is known; at other clocks the linear model is used alone.
/// Immutable; fixed point like the linear model, so within() is exact to the token.
class KvSteps {
 public:
  /// `trees`: trained on the residuals of `lines` (ms over f, N_req, N_kv). Errors: those of TreeTable.
  [[nodiscard]] static Result<KvSteps> make(const LinearLatency& lines, const GbdtTrees& trees);

  /// One cell of KV tokens. Sums are the linear model's rise from 0 KV tokens plus the trees' part, in fixed point.
  struct Cell {
    std::int64_t rest = 0;            ///< the trees' part
    std::int64_t highest_before = 0;  ///< sum
    std::int64_t lowest_after = 0;    ///< sum
  };
  /// The cells of one clock and batch. Null: the linear model is used alone.
  using Row = const Cell*;
  [[nodiscard]] Row row(MegaHertz clock, std::int32_t requests) const;
  /// Linear model and trees together, in fixed point, without the line's floor. `line`: of the model given to make(),
  /// at the row's clock and requests.
  [[nodiscard]] Int128 time(const LinearLatency::Line& line, Row row, std::int64_t kv_tokens) const;
  /// The most KV tokens for which time() is <= limit, if there are any.
  [[nodiscard]] std::int64_t within(const LinearLatency::Line& line, Row row, Int128 limit) const;

 private:
  std::vector<std::int32_t> clocks_;          ///< MHz, ascending
  std::vector<std::int32_t> first_requests_;  ///< of each row, ascending
  std::vector<std::int64_t> first_kv_;        ///< of each cell, ascending
  std::vector<Cell> cells_;                   ///< [clock][row][cell]
};

}  // namespace wattle::predict
