#pragma once
// A benchmark run against one simulated instance, as the measured sets did theirs: an arrival process or a fixed
// concurrency, fixed or spread lengths, and latency and power at the end.
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/step_model.h"

namespace wattle::fidelity {

/// How an engine puts prompts and decodes into steps.
enum class Batching : std::uint8_t {
  Chunked,       ///< prompts are split and share steps with decodes (vLLM V1)
  WholePrompts,  ///< prompts share steps with decodes but stay whole (TensorRT-LLM)
  PromptsFirst,  ///< a step has prompts, whole, or decodes; prompts hold decodes up (SGLang)
};

struct Load {
  double rate_per_s = 0.0;       ///< Poisson arrivals; 0 = closed loop
  std::int32_t concurrency = 0;  ///< closed loop: requests in flight
  std::int32_t requests = 400;
  double input_mean = 1024;
  double output_mean = 128;
  double input_cv = 0.0;  ///< 0 = fixed; else lognormal with this coefficient of variation
  double output_cv = 0.0;
  double longest_input = 0.0;  ///< above: clamped; 0 = no limit
  double longest_output = 0.0;
  double shortest = 1.0;  ///< below 1: lengths are uniform in [shortest, 1] x mean instead
  std::int32_t max_batched_tokens = 8192;
  Batching batching = Batching::Chunked;
  /// KV blocks are taken as a request grows, and the latest request is computed anew when they run out (vLLM); else a
  /// request waits until its end fits.
  bool grows = false;
  std::int32_t max_running = std::numeric_limits<std::int32_t>::max();  ///< requests in the engine at once
  bool overlapped = false;  ///< a step is put together while its predecessor runs, so arrivals wait one step more
  // The front end is one process: requests on their way in and tokens on their way out queue for it.
  double front_end_s = 0.0;        ///< per request, before the scheduler sees it
  double front_end_token_s = 0.0;  ///< per token, before the client sees it
  double warm_up = 0.0;            ///< share of requests at either end that power and latency leave out
  MegaHertz clock;
  bool prefill_only = false;  ///< disaggregated: the request leaves after its first token
  bool decode_only = false;   ///< disaggregated: the prompt is there already
};

/// Power of a step under a rival model, W for the whole instance; see baselines.h.
using StepPower = double (*)(const void* context, const StepShape& shape, double seconds, double ours_w);

struct Measured {
  bool feasible = true;
  double power_w = 0.0;     ///< mean over the measured window, whole instance
  double duration_s = 0.0;  ///< of that window
  double output_tokens_per_s = 0.0;
  double ttft_mean_s = 0.0, ttft_p50_s = 0.0, ttft_p99_s = 0.0;
  double tpot_mean_s = 0.0, tpot_p50_s = 0.0, tpot_p99_s = 0.0;  ///< of requests' own means
  double itl_p50_s = 0.0;                                        ///< of all gaps
  // Shares of the window, for rival power models.
  double idle_share = 0.0, prefill_share = 0.0, decode_share = 0.0;
  double rival_power_w = 0.0;
};

[[nodiscard]] Measured run(const engine::StepModel& model, const Load& load, StepPower rival = nullptr,
                           const void* context = nullptr);

}  // namespace wattle::fidelity
