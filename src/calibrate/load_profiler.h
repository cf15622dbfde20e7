#pragma once
// DynamoLLM's profile of a model (HPCA 2025, section IV-A) on simulated instances: class x TP degree x clock x load ->
// power, TTFT, TBT.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/options.h"
#include "model/hardware.h"
#include "model/objectives.h"
#include "plan/load_table.h"

namespace wattle::calibrate {

/// A class of requests, as it is profiled.
struct ClassRequests {
  std::string name;
  plan::ShardLimits limits;
  std::vector<std::pair<std::int32_t, std::int32_t>> lengths;  ///< prompt and output tokens, drawn in turn; not empty
  /// What each of them is held to, where that is not `limits`: a class of several sizes is within its limits when the
  /// quantile of latencies over their own objectives is.
  Objectives held_to = {};
};

/// Seven clocks that a GPU has: nearest to the shares of the highest that DynamoLLM's are of the H100's (Table I: 0.8
/// to 2.0 GHz; there 810, 1005, 1200, 1395, 1605, 1800 and 1980 MHz). Ascending, each once.
[[nodiscard]] std::vector<MegaHertz> clocks_to_profile(const GpuSpec& gpu);

struct LoadProfilerOptions {
  std::vector<int> tps = {2, 4, 8};
  std::vector<MegaHertz> clocks;                      ///< ascending, the GPU's own: `clocks_to_profile`
  std::int64_t requests = 1500;                       ///< of a measurement; its first fifth does not count
  double quantile = 0.99;                             ///< of latencies
  std::vector<double> shares = {0.25, 0.5, 0.75, 1};  ///< measured loads, of the most within limits
  double bend = 0.2;  ///< a rise of power between two loads above this share of the whole rise is measured in between
  int halvings = 2;   ///< as often as that
  /// Measured together, each request at the one with the fewest; loads and power are of one. 1 (DynamoLLM): one by
  /// itself under Poisson arrivals, which are burstier than what a router of many leaves each.
  int instances = 1;
};

/// What is profiled. The engine's options hold for all TP degrees.
struct ProfiledEngine {
  GpuSpec gpu;
  LlmSpec llm;
  engine::EngineOptions engine;
};

/// Poisson arrivals on one instance at a fixed clock, the same pattern at every rate. The most load within limits is
/// searched to 3 %; a clock that misses them even for lone requests gets the lone requests' latencies at two loads. The
/// highest clock is measured beyond, up to the load from which on fewer requests a second are within limits, not more
/// (plan::most_useful_load). Of a class of which no configuration keeps the quantile even of lone requests, as many
/// points below the most that one keeps count, and the provenance says so.
/// `progress` hears of each class and TP degree. A TP degree whose memory cannot hold the model is left out and noted
/// in the provenance. Deterministic. Errors: no TP degree holds the model; a class without requests.
[[nodiscard]] Result<plan::LoadTable> profile_loads(const ProfiledEngine& engine,
                                                    const std::vector<ClassRequests>& classes,
                                                    const LoadProfilerOptions& options,
                                                    const std::function<void(const std::string&)>& progress = {});

}  // namespace wattle::calibrate
