#pragma once
// A benchmark run against one simulated engine, as the measured sets did theirs: an arrival process or a fixed
// concurrency, fixed or spread lengths, and latency and power at the end. The engine is engine::Replica, the client is
// here, energy is the carbon ledger's.
#include <cstdint>

#include "engine/options.h"
#include "engine/step_model.h"
#include "fidelity/baselines.h"

namespace wattle::fidelity {

/// What a client sends and how it measures.
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
  /// The client draws from so many prompts, and has sent the first of them once before the run: an engine that caches
  /// prefixes has their KV. 0: no two requests begin alike. Closed loops of fixed lengths only.
  std::int32_t distinct_prompts = 0;
  std::int32_t prompts_sent_before = 0;
  // The server's front end is one process: requests on their way in and tokens on their way out queue for it.
  double front_end_s = 0.0;          ///< per request, before the engine has it
  double front_end_processes = 1.0;  ///< that share its requests
  double front_end_token_s = 0.0;    ///< per token, before the client sees it
  double warm_up = 0.0;              ///< share of requests at either end that power and latency leave out
  MegaHertz clock;
  bool prefill_only = false;  ///< disaggregated: the request leaves after its first token
  bool decode_only = false;   ///< disaggregated: the prompt is there already
};

struct Measured {
  bool feasible = true;     ///< false: a request is larger than the KV cache; nothing else is set
  double energy_j = 0.0;    ///< of the whole instance over the measured window
  double power_w = 0.0;     ///< its mean
  double duration_s = 0.0;  ///< of that window
  double output_tokens_per_s = 0.0;
  double ttft_mean_s = 0.0, ttft_p99_s = 0.0;
  double tpot_mean_s = 0.0, tpot_p99_s = 0.0;  ///< of requests' own means
  double itl_p50_s = 0.0;                      ///< of all gaps, as they leave the engine
};

/// `engine` schedules the requests; `model` was made with the same. With a rival, energy and power are its.
[[nodiscard]] Measured run(const engine::StepModel& model, const engine::EngineOptions& engine, const Load& load,
                           const RivalPower* rival = nullptr);

}  // namespace wattle::fidelity
