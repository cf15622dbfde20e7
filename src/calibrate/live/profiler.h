#pragma once
// Measures a live engine over a grid: generates load, reads token streams or telemetry and NVML, and produces rows of a
// step profile.
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
  std::string model;  ///< empty: the first that the engine lists
  loadgen::PromptForm form = loadgen::PromptForm::TokenIds;
  std::uint64_t serial = 0;  ///< number of the first prompt; must differ between runs, or a prefix cache answers
  Grid grid;
  /// The engine's GPUs, by index or UUID. Empty: power is not measured and clocks are not set.
  std::vector<std::string> gpus;
  node::KeeperOptions keeper;
  MegaHertz stated_clock;  ///< without GPUs: the engine's clock, as stated by the user
  std::string telemetry;   ///< ZeroMQ endpoint of its forward-pass metrics; empty: steps are inferred from the streams
  /// For prompts of random length; lowered to what the engine accepts.
  std::int64_t longest_prompt = 8192;
  Span prefill_time = Span::ms(1200);  ///< minimum time per prompt length
  Span rate_time = Span::s(5);         ///< time per arrival rate
  Span window = Span::s(1);            ///< duration of one measurement, for a grid that draws clocks
  Span settle = Span::ms(200);         ///< from a lock until steps at that clock
};

struct ProfileOutcome {
  predict::StepProfile profile;
  std::vector<std::string> notes;  ///< cells without a result, with the reason
  std::vector<std::string> stuck;  ///< GPUs that could not be unlocked in time; the guardian unlocks them
  bool interrupted = false;
};

/// Capacity of the engine's KV cache from its /metrics (vLLM's vllm:cache_config_info). Errors: it cannot be reached;
/// it does not report it.
[[nodiscard]] Result<std::int64_t> kv_capacity_tokens(const std::string& url);

/// Measures every cell at every clock, lowest first; if the grid draws clocks, each cell once, as described in
/// rate_collector.h. Clocks are locked only if the grid states or draws some, always with a guardian that unlocks them
/// if this process dies, and are unlocked before it returns. `stop` ends it early with the results so far. `say`
/// receives progress messages. Errors: the engine cannot be reached; unknown GPU; a clock that is not supported or
/// cannot be locked; clocks without GPUs; neither GPUs nor a stated clock.
[[nodiscard]] Result<ProfileOutcome> profile_engine(const ProfileOptions& options, const std::atomic<bool>& stop,
                                                    const std::function<void(const std::string&)>& say);

}  // namespace wattle::calibrate
