#pragma once
// The pool planner's inputs from CSV texts with the columns of FREESH's released data. Texts, not files: plan/ does no
// I/O.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "plan/pools.h"

namespace wattle::plan {

struct NamedText {
  std::string name;  ///< in errors: "name:line"
  std::string_view text;
};

/// Profile: partition, request_type, mode, tp, gpu, gpus_per_worker, worker_power_w, max_qps, mean_ttft_ms, mean_tbt_ms
/// and, if measured, idle_power_w. A P/D pair writes gpu and gpus_per_worker as "A100+A6000", "2+4". Capacity: site and
/// one column per kind (a100, h100). SLO: request_type, ttft_ms, tbt_ms. Demand, one text per partition in the
/// profile's order: slot_5min and one column per type (ss_qps). Emissions: slot_5min and one column per site,
/// site1_lb_co2_per_mwh or site1_g_co2_per_kwh. Prices (optional): slot_5min, site1_usd_per_mwh. All series begin at
/// the same slot, which need not be 0.
struct PoolsTexts {
  NamedText profile, capacity, slo, emissions;
  std::vector<NamedText> demand;
  NamedText prices;  ///< no name: none
};

/// The content of the texts, by slot.
class PoolsData {
 public:
  /// `idle_share`: idle power as a share of a worker's peak, where the profile has none. Errors name text and line.
  [[nodiscard]] static Result<PoolsData> parse(const PoolsTexts& texts, double idle_share);

  /// Slots are numbered as in the texts.
  [[nodiscard]] std::size_t first_slot() const { return first_; }
  [[nodiscard]] std::size_t end_slot() const { return first_ + slots_; }
  /// The windows of `slots` slots that lie within the data, numbered from slot 0.
  [[nodiscard]] std::size_t first_window(std::size_t slots) const { return (first_ + slots - 1) / slots; }
  [[nodiscard]] std::size_t end_window(std::size_t slots) const { return end_slot() / slots; }
  /// The problem of `count` slots from `first`, with demand divided by `beta`. The slots must be within the data.
  [[nodiscard]] PoolsProblem window(std::size_t first, std::size_t count, double beta) const;
  /// Sites, modes and partitions over all slots.
  [[nodiscard]] const PoolsProblem& whole() const { return whole_; }

 private:
  PoolsProblem whole_;  ///< one window over all slots
  std::size_t first_ = 0, slots_ = 0;
};

}  // namespace wattle::plan
