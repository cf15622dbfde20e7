#pragma once
// What trees add to the lines of decode steps, over the KV tokens.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/wide.h"
#include "predict/gbdt/trees.h"
#include "predict/linear_latency.h"

namespace wattle::predict {

/// The trees' own answers, a step function of the KV tokens. Where lines are too steep, trees take time away again, and
/// may: it is the sum that must never be shorter for more KV tokens, as LatencyModel promises. Where it would be, it is
/// the middle of its running maximum and its running minimum from the far end, which rises with the lines to either
/// side and leans neither way. Only for the clocks the lines were fitted at, where it is known how they rise; at others
/// they stand alone. Immutable; fixed point as the lines', so that within() is exact to the token.
class KvSteps {
 public:
  /// What `trees` (ms over f, N_req, N_kv) learnt that `lines` leave over. Errors: those of TreeTable.
  [[nodiscard]] static Result<KvSteps> make(const LinearLatency& lines, const GbdtTrees& trees);

  /// One cell of KV tokens. Sums are the lines' rise from 0 KV tokens and the trees' part, fixed point.
  struct Cell {
    std::int64_t rest = 0;            ///< the trees' part
    std::int64_t highest_before = 0;  ///< sum
    std::int64_t lowest_after = 0;    ///< sum
  };
  /// Of one clock and batch. Null: the lines stand alone.
  using Row = const Cell*;
  [[nodiscard]] Row row(MegaHertz clock, std::int32_t requests) const;
  /// Lines and trees together, fixed point, whatever the line's floor. `line`: of the lines given to make(), at the
  /// row's clock and requests.
  [[nodiscard]] Int128 time(const LinearLatency::Line& line, Row row, std::int64_t kv_tokens) const;
  /// The most KV tokens up to which that is <= limit, where it is for some.
  [[nodiscard]] std::int64_t within(const LinearLatency::Line& line, Row row, Int128 limit) const;

 private:
  std::vector<std::int32_t> clocks_;          ///< MHz, ascending
  std::vector<std::int32_t> first_requests_;  ///< of each row, ascending
  std::vector<std::int64_t> first_kv_;        ///< of each cell, ascending
  std::vector<Cell> cells_;                   ///< [clock][row][cell]
};

}  // namespace wattle::predict
