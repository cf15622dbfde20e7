#pragma once
// The pool planner's inputs from CSV texts, in the columns of FREESH's released data. Texts, not files: plan/ is pure.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "plan/pools.h"

namespace wattle::plan {

struct NamedText {
  std::string name;  ///< for errors: "name:line"
  std::string_view text;
};

/// Profile: partition, request_type, mode, tp, gpu, gpus_per_worker, worker_power_w, max_qps, mean_ttft_ms, mean_tbt_ms
/// and, where it was measured, idle_power_w. A prefill/decode pair writes gpu and gpus_per_worker as "A100+A6000",
/// "2+4". Capacity: site and one column per kind (a100, h100). SLO: request_type, ttft_ms, tbt_ms. Demand, one text per
/// partition in the profile's order: slot_5min and one column per type (ss_qps). Emissions: slot_5min and one column
/// per site, site1_lb_co2_per_mwh or site1_g_co2_per_kwh. Prices (optional): slot_5min, site1_usd_per_mwh. Series begin
/// at the same slot, whichever that is.
struct PoolsTexts {
  NamedText profile, capacity, slo, emissions;
  std::vector<NamedText> demand;
  NamedText prices;  ///< empty text: none
};

/// Everything the texts hold, slot by slot.
class PoolsData {
 public:
  /// `idle_share` of a worker's peak power is its idle power where the profile has none. Errors name text and line.
  [[nodiscard]] static Result<PoolsData> parse(const PoolsTexts& texts, double idle_share);

  /// Slots are numbered as in the texts.
  [[nodiscard]] std::size_t first_slot() const { return first_; }
  [[nodiscard]] std::size_t end_slot() const { return first_ + slots_; }
  /// The windows of so many slots that lie within the data, numbered from slot 0 on.
  [[nodiscard]] std::size_t first_window(std::size_t slots) const { return (first_ + slots - 1) / slots; }
  [[nodiscard]] std::size_t end_window(std::size_t slots) const { return end_slot() / slots; }
  /// `count` slots from `first`, demand divided by `beta`. Both must lie within the data.
  [[nodiscard]] PoolsProblem window(std::size_t first, std::size_t count, double beta) const;
  /// Sites, modes and partitions over the whole span.
  [[nodiscard]] const PoolsProblem& whole() const { return whole_; }

 private:
  PoolsProblem whole_;  ///< one window over all slots
  std::size_t first_ = 0, slots_ = 0;
};

}  // namespace wattle::plan
