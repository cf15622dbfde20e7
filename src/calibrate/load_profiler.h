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

/// Seven lockable clocks, at the same shares of the highest clock as DynamoLLM's on the H100 (Table I: 0.8 to 2.0 GHz;
/// there 810, 1005, 1200, 1395, 1605, 1800 and 1980 MHz). Ascending, without duplicates.
[[nodiscard]] std::vector<MegaHertz> clocks_to_profile(const GpuSpec& gpu);

struct LoadProfilerOptions : LoadSearchOptions {
  std::vector<int> tps = {2, 4, 8};
  std::int64_t requests = 1500;  ///< per measurement; the first fifth is not counted
  /// Number of instances measured together, where each request goes to the one with the fewest; loads and power are per
  /// instance. 1 (DynamoLLM): a single instance with Poisson arrivals, which are burstier than its share behind a
  /// router.
  int instances = 1;
};

/// The engine to profile. Its options apply to all TP degrees.
struct ProfiledEngine {
  GpuSpec gpu;
  LlmSpec llm;
  engine::EngineOptions engine;
};

/// Measures by the procedure of load_search.h on an instance at a fixed clock. A TP degree whose memory cannot hold the
/// model is left out and noted in the provenance. Deterministic. Errors: no TP degree can hold the model; a class
/// without requests.
[[nodiscard]] Result<plan::LoadTable> profile_loads(const ProfiledEngine& engine,
                                                    const std::vector<ClassRequests>& classes,
                                                    const LoadProfilerOptions& options,
                                                    const std::function<void(const std::string&)>& progress = {});

/// A prefill and a decode instance, each at one clock, with KV transfers over `link`.
struct ProfiledPair {
  struct Half {
    ProfiledEngine engine;
    int tp = 1;
    MegaHertz clock;
  };
  Half prefill, decode;
  engine::LinkOptions link;
};

/// The same for such pairs: loads and power are for both instances together; profiles are stored under the prefill
/// instance's TP degree and clock. tps and clocks in `options` are ignored. Errors: a half whose memory cannot hold the
/// model; a class without requests.
[[nodiscard]] Result<plan::LoadTable> profile_pair_loads(const ProfiledPair& pair,
                                                         const std::vector<ClassRequests>& classes,
                                                         LoadProfilerOptions options,
                                                         const std::function<void(const std::string&)>& progress = {});

}  // namespace wattle::calibrate
