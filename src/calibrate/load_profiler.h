#pragma once
// DynamoLLM's profile of a model (HPCA 2025, section IV-A) on simulated instances: class x TP degree x clock x load ->
// power, TTFT, TBT.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "calibrate/load_search.h"
#include "engine/options.h"
#include "model/hardware.h"
#include "plan/load_table.h"

namespace wattle::calibrate {

/// Seven clocks that a GPU has: nearest to the shares of the highest that DynamoLLM's are of the H100's (Table I: 0.8
/// to 2.0 GHz; there 810, 1005, 1200, 1395, 1605, 1800 and 1980 MHz). Ascending, each once.
[[nodiscard]] std::vector<MegaHertz> clocks_to_profile(const GpuSpec& gpu);

struct LoadProfilerOptions : LoadSearchOptions {
  std::vector<int> tps = {2, 4, 8};
  std::int64_t requests = 1500;  ///< of a measurement; its first fifth does not count
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

/// By the rule of load_search.h, on one instance at a fixed clock. A TP degree whose memory cannot hold the model is
/// left out and noted in the provenance. Deterministic. Errors: no TP degree holds the model; a class without requests.
[[nodiscard]] Result<plan::LoadTable> profile_loads(const ProfiledEngine& engine,
                                                    const std::vector<ClassRequests>& classes,
                                                    const LoadProfilerOptions& options,
                                                    const std::function<void(const std::string&)>& progress = {});

/// A prefill and a decode instance side by side, each at one clock; KV caches go over `link`.
struct ProfiledPair {
  struct Half {
    ProfiledEngine engine;
    int tp = 1;
    MegaHertz clock;
  };
  Half prefill, decode;
  engine::LinkOptions link;
};

/// Likewise of such pairs: loads and power are of both together, profiles are of the prefill instance's TP degree and
/// clock. `options`: tps and clocks are ignored. Errors: a half whose memory cannot hold the model; a class without
/// requests.
[[nodiscard]] Result<plan::LoadTable> profile_pair_loads(const ProfiledPair& pair,
                                                         const std::vector<ClassRequests>& classes,
                                                         LoadProfilerOptions options,
                                                         const std::function<void(const std::string&)>& progress = {});

}  // namespace wattle::calibrate
