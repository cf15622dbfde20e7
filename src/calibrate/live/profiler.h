#pragma once
// Measures a live engine over a grid: load in, token streams or telemetry and NVML out, rows of a step profile.
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "calibrate/live/grid.h"
#include "loadgen/replay.h"
#include "node/keeper.h"
#include "predict/step_profile.h"

namespace wattle::calibrate {

struct ProfileOptions {
  std::string url;
  std::string model;  ///< empty: the first the engine names
  loadgen::PromptForm form = loadgen::PromptForm::TokenIds;
  std::uint64_t serial = 0;  ///< of the first prompt; another one each run, or a prefix cache answers
  Grid grid;
  /// The engine's GPUs, by index or UUID. Empty: no power is measured and no clock set.
  std::vector<std::string> gpus;
  node::KeeperOptions keeper;
  MegaHertz stated_clock;  ///< without GPUs: what the engine runs at, on somebody's word
  std::string telemetry;   ///< ZeroMQ endpoint of its forward-pass metrics; empty: steps are inferred from the streams
  /// Of prompts whose lengths are drawn; lowered to what the engine says it takes.
  std::int64_t longest_prompt = 8192;
  Span prefill_time = Span::ms(1200);  ///< least time spent on each prompt length
  Span rate_time = Span::s(5);         ///< time spent on each arrival rate
  Span window = Span::s(1);            ///< of one measurement of a grid that draws its clocks
  Span settle = Span::ms(200);         ///< from a lock to steps at that clock
};

struct ProfileOutcome {
  predict::StepProfile profile;
  std::vector<std::string> notes;  ///< cells without a result, and why
  std::vector<std::string> stuck;  ///< GPUs that did not let go of their clock in time; the guardian has them
  bool interrupted = false;
};

/// What the engine's cache holds, as its /metrics tell: vLLM's vllm:cache_config_info. Errors: it cannot be reached; it
/// does not tell.
[[nodiscard]] Result<std::int64_t> kv_capacity_tokens(const std::string& url);

/// Visits every cell at every clock, lowest first; where the grid draws clocks, each cell once, as
/// live/profile/rate_collector.h says. Clocks are locked only where the grid names or draws some, never without a
/// guardian that releases them should this process die, and are released before it returns. `stop` ends it early with
/// what there is. `say` gets what is being done. Errors: the engine cannot be reached; no GPU of that name; a clock
/// it does not offer or that cannot be locked; clocks without GPUs; neither GPUs nor a stated clock.
[[nodiscard]] Result<ProfileOutcome> profile_engine(const ProfileOptions& options, const std::atomic<bool>& stop,
                                                    const std::function<void(const std::string&)>& say);

}  // namespace wattle::calibrate
