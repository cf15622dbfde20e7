#pragma once
// DynamoLLM's profile (HPCA 2025, section IV-A) of a live engine: the procedure of load_search.h with Poisson arrivals
// over HTTP, clocks locked through NVML and power from the GPUs' energy counters.
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "calibrate/load_search.h"
#include "loadgen/completion_body.h"
#include "node/keeper.h"
#include "plan/load_table.h"
#include "units/time.h"

namespace wattle::calibrate {

struct LiveLoadOptions {
  std::string url;
  std::string model;  ///< empty: the first that the engine lists
  loadgen::PromptForm form = loadgen::PromptForm::TokenIds;
  std::uint64_t serial = 0;       ///< number of the first prompt; must differ between runs, or a prefix cache answers
  std::vector<std::string> gpus;  ///< of the engine, by index or UUID
  node::KeeperOptions keeper;
  int tp = 0;                    ///< the engine's TP degree; 0: number of GPUs
  Span load_time = Span::s(30);  ///< mean duration of a load; the first fifth of its requests is not counted
  Span settle = Span::ms(200);   ///< from a lock until requests at that clock
  LoadSearchOptions search;      ///< least_load is set by `load_time`
};

struct LiveLoads {
  plan::LoadTable table;           ///< one TP degree; without llm and gpu
  std::vector<std::string> stuck;  ///< GPUs that could not be unlocked in time; the guardian unlocks them
};

/// Each load has at least kLeastRequests; loads that would take longer than four times `load_time` with that many are
/// not searched. A load with refused or aborted requests counts as beyond the limits, unless the engine then refuses a
/// single request, too. Clocks are unlocked before it returns. Errors: no GPUs, or not as many as the TP degree; the
/// engine cannot be reached, does not accept requests as long as a class's, or does not answer single requests as
/// streams; a clock that is not supported or cannot be locked; power that cannot be read; `stop` was set.
[[nodiscard]] Result<LiveLoads> profile_live_loads(const std::vector<ClassRequests>& classes,
                                                   const LiveLoadOptions& options, const std::atomic<bool>& stop,
                                                   const std::function<void(const std::string&)>& say);
inline constexpr std::int64_t kLeastRequests = 10;

}  // namespace wattle::calibrate
