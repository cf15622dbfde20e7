#pragma once
// A benchmark run against one simulated engine, as in the measured data sets: an arrival process or a fixed
// concurrency, fixed or distributed lengths, with latency and power as results. The engine is engine::Replica, the
// client is here, energy comes from the carbon ledger.
#include <cstdint>

#include "base/error.h"
#include "engine/options.h"
#include "engine/step_model.h"
#include "fidelity/baselines.h"

namespace wattle::fidelity {

/// The client's load, and its measurement.
struct Load {
  double rate_per_s = 0.0;       ///< Poisson arrivals; 0 = closed loop
  std::int32_t concurrency = 0;  ///< closed loop: requests in flight
  std::int32_t requests = 400;
  double input_mean = 1024;
  double output_mean = 128;
  double input_cv = 0.0;  ///< 0 = fixed; otherwise lognormal with this coefficient of variation
  double output_cv = 0.0;
  double longest_input = 0.0;  ///< longer ones are clamped; 0 = no limit
  double longest_output = 0.0;
  double shortest = 1.0;  ///< below 1: lengths are uniform in [shortest, 1] x mean
  /// Number of different prompts, of which prompts_sent_before were sent once before the run, so an engine that caches
  /// prefixes has their KV. 0: no two prompts share a prefix. Only for closed loops with fixed lengths.
  std::int32_t distinct_prompts = 0;
  std::int32_t prompts_sent_before = 0;
  // The server's front end is a single process in which incoming requests and outgoing tokens queue.
  double front_end_s = 0.0;          ///< per request, before the engine receives it
  double front_end_processes = 1.0;  ///< number of processes that share the requests
  double front_end_token_s = 0.0;    ///< per token, before the client receives it
  double warm_up = 0.0;              ///< share of requests at the start and at the end that power and latency leave out
  MegaHertz clock;
  bool prefill_only = false;  ///< disaggregated: the request ends after its first token
  bool decode_only = false;   ///< disaggregated: the prompt's KV is present
};

struct Measured {
  bool feasible = true;     ///< false: a request exceeds the KV cache (too_large()); no other value is set
  double energy_j = 0.0;    ///< of the whole instance over the measured window
  double power_w = 0.0;     ///< its mean
  double duration_s = 0.0;  ///< of that window
  double output_tokens_per_s = 0.0;
  double ttft_mean_s = 0.0, ttft_p99_s = 0.0;
  double tpot_mean_s = 0.0, tpot_p99_s = 0.0;  ///< over requests' mean gaps
  double itl_p50_s = 0.0;                      ///< over all gaps, at the engine's output
};

/// Why a run was not feasible.
[[nodiscard]] std::unexpected<Error> too_large();

/// `engine` schedules the requests; `model` was created with the same options. With a rival, energy and power are the
/// rival's.
[[nodiscard]] Measured run(const engine::StepModel& model, const engine::EngineOptions& engine, const Load& load,
                           const RivalPower* rival = nullptr);

}  // namespace wattle::fidelity
