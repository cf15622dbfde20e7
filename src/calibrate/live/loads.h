#pragma once
// DynamoLLM's profile (HPCA 2025, section IV-A) of a live engine: the rule of load_search.h, with Poisson arrivals over
// HTTP, clocks locked through NVML and power from the GPUs' energy counters.
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
  std::string model;  ///< empty: the first the engine names
  loadgen::PromptForm form = loadgen::PromptForm::TokenIds;
  std::uint64_t serial = 0;       ///< of the first prompt; another one each run, or a prefix cache answers
  std::vector<std::string> gpus;  ///< the engine's, by index or UUID
  node::KeeperOptions keeper;
  int tp = 0;                    ///< the engine's TP degree; 0: as many as GPUs
  Span load_time = Span::s(30);  ///< mean duration of a load; its first fifth of requests does not count
  Span settle = Span::ms(200);   ///< from a lock to requests at that clock
  LoadSearchOptions search;      ///< least_load is set by `load_time`
};

struct LiveLoads {
  plan::LoadTable table;           ///< one TP degree; without llm and gpu
  std::vector<std::string> stuck;  ///< GPUs that did not let go of their clock in time; the guardian has them
};

/// Loads are of at least kLeastRequests, and those that would last longer than four times `load_time` with so many are
/// not searched. A load that refuses or breaks off a request is beyond the limits, unless the engine then refuses a
/// lone request, too. Clocks are released before it returns. Errors: no GPUs, or not as many as the TP degree; the
/// engine cannot be reached, takes no requests as long as a class has, does not answer lone requests, or not in
/// streams; a clock that is not offered or cannot be locked; power that cannot be read; `stop` was set.
[[nodiscard]] Result<LiveLoads> profile_live_loads(const std::vector<ClassRequests>& classes,
                                                   const LiveLoadOptions& options, const std::atomic<bool>& stop,
                                                   const std::function<void(const std::string&)>& say);
inline constexpr std::int64_t kLeastRequests = 10;

}  // namespace wattle::calibrate
