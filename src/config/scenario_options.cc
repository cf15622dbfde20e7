#include <string_view>

#include "config/records.h"
#include "journal/names.h"

namespace wattle::config {

template <>
struct Codec<engine::Framework> : NamedCodec<engine::Framework, Codec<engine::Framework>> {
  static constexpr const auto& names() { return engine::kFrameworks; }
};

template <>
struct Codec<Role> : NamedCodec<Role, Codec<Role>> {
  static constexpr const auto& names() { return journal::kRoleNames; }
};

template <>
struct Codec<TelemetrySource> : NamedCodec<TelemetrySource, Codec<TelemetrySource>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, TelemetrySource>>({{"starts", TelemetrySource::StepStarts},
                                                                        {"ends", TelemetrySource::StepEnds},
                                                                        {"streams", TelemetrySource::Streams},
                                                                        {"gauges", TelemetrySource::Gauges}});
  }
};

template <>
struct Codec<workload::TraceFormat> : NamedCodec<workload::TraceFormat, Codec<workload::TraceFormat>> {
  static constexpr auto names() {
    using workload::TraceFormat;
    return std::to_array<std::pair<std::string_view, TraceFormat>>({{"azure", TraceFormat::Azure},
                                                                    {"vidur", TraceFormat::Vidur},
                                                                    {"splitwise", TraceFormat::Splitwise},
                                                                    {"mooncake", TraceFormat::Mooncake},
                                                                    {"burstgpt", TraceFormat::BurstGpt},
                                                                    {"counts", TraceFormat::Counts}});
  }
};

namespace {

constexpr double kYear_s = 366.0 * 86400.0;

std::vector<Option<workload::PrefixOptions>> prefix_options() {
  using P = workload::PrefixOptions;
  return {
      option("prefix_share", &P::share, "", {0, 1},
             "Share of requests that start with a shared system prompt, among those that continue no conversation. "
             "Applies only if the trace does not describe prompt contents (as Mooncake's hash_ids do)"),
      option("prefixes", &P::prefixes, "", {1, 1e6}, "Number of different system prompts, all equally likely"),
      option("prefix_tokens", &P::tokens, "tokens", {16, 10'000'000},
             "Length of each system prompt, in whole blocks of 16 tokens"),
      option("session_share", &P::session_share, "", {0, 1},
             "Share of requests that continue a conversation: the prompt starts with an earlier one, as far as both "
             "reach. Lengths do not change. Applies only if the trace does not describe prompt contents"),
      option("sessions", &P::sessions, "", {1, 1e6}, "Number of open conversations; a new one replaces the oldest"),
  };
}

std::vector<Option<workload::WorkloadOptions>> workload_options() {
  using W = workload::WorkloadOptions;
  constexpr Bounds kTokens{1, 10'000'000};
  constexpr Bounds kMean{0, 1e7, true};
  constexpr Bounds kDeviation{0, 1e7};
  std::vector<Option<W>> all{
      option("trace", &W::trace,
             "Trace file to replay. A relative path is looked up in WATTLE_DATA, then next to the scenario. Empty: "
             "synthetic arrivals"),
      option("format", &W::format,
             "Format of the trace file. none: as its first line says, but counts. counts: rows Time,TIMESTAMP with the "
             "start of an interval and its number of "
             "requests, whose lengths are drawn from the histograms in lengths"),
      option("rate_scale", &W::rate_scale, "", {1e-6, 1e6},
             "Arrival rate as a multiple of the trace's: 2 sends the same requests in half the time"),
      option("peak_rate_per_s", &W::peak_rate_per_s, "1/s", {0, 1e6},
             "Scale arrival times so that the busiest window of rate_window_s has this rate. 0: unchanged"),
      option("trough_rate_per_s", &W::trough_rate_per_s, "1/s", {0, 1e6},
             "Drop requests, more of them in calmer windows, until the calmest window has this rate. 0: drop none"),
      option("rate_window_s", &W::rate_window, "s", {1, 86'400}, "Window for peak_rate_per_s and trough_rate_per_s"),
      option("copies", &W::copies, "", {0, 1e4, true},
             "Mean number of times that every request is sent, to make the service busier without changing the "
             "duration. Below 1: requests are dropped"),
      option("copies_spread_s", &W::copies_spread, "s", {0, 86'400}, "Maximum delay of a copy after the original"),
      option("start_s", &W::start, "s", {0, kYear_s}, "Start of the replayed part, in trace time"),
      option("duration_s", &W::duration, "s", {1e-6, kYear_s},
             "Length of the replayed part, in trace time. none: to the end"),
      option("max_prompt_tokens", &W::max_prompt_tokens, "tokens", kTokens,
             "Longer prompts are truncated, and counted"),
      option("max_output_tokens", &W::max_output_tokens, "tokens", kTokens,
             "Longer outputs are truncated, and counted"),
      choice("synthetic", &W::synthetic, {"", "azure-conv", "mlperf-openorca"},
             "Named synthetic process that replaces the keys below; only without a trace. azure-conv: the statistics "
             "of the Azure 2023 conversation trace; mlperf-openorca: the lengths of MLPerf's Llama-2-70B benchmark, "
             "with arrivals by rate_per_s and arrival_cv"),
      option("rate_per_s", &W::rate_per_s, "1/s", {0, 1e6, true}, "Synthetic: mean arrival rate"),
      option("arrival_cv", &W::arrival_cv, "", {0, 100},
             "Synthetic: coefficient of variation of the times between arrivals. 0: evenly spaced; 1: Poisson; other "
             "values: Gamma"),
      option("requests", &W::requests, "", {1, 1e10}, "Synthetic: number of requests"),
      option("lengths", &W::lengths,
             "Synthetic: CSV of (prompt, output) token pairs to draw from; empty: lognormal lengths. With format "
             "counts: CSV with service,field,bin_lo,bin_hi,share"),
      option("service", &W::service, "With format counts: the service whose lengths to use"),
      option("prompt_mean", &W::prompt_mean, "tokens", kMean, "Synthetic, lognormal: mean prompt length"),
      option("prompt_std", &W::prompt_std, "tokens", kDeviation,
             "Synthetic, lognormal: standard deviation of prompt lengths"),
      option("output_mean", &W::output_mean, "tokens", kMean, "Synthetic, lognormal: mean output length"),
      option("output_std", &W::output_std, "tokens", kDeviation,
             "Synthetic, lognormal: standard deviation of output lengths"),
  };
  append<W>(all, "", {&W::prefix}, prefix_options());
  return all;
}

std::vector<Option<Slo>> slo_options() {
  constexpr Bounds kLatency{0.001, 86'400'000};
  return {
      option("ttft_ms", &Slo::ttft, "ms", kLatency, "TTFT objective: arrival to first token. none: not judged"),
      option("itl_ms", &Slo::itl, "ms", kLatency,
             "ITL objective: gap between two tokens. itl_attainment is the share of gaps within it; attainment judges "
             "each request by its mean gap. none: not judged"),
      option("tbt_ms", &Slo::tbt, "ms", kLatency,
             "TBT (TPOT) objective: mean gap between a request's tokens. none: not judged"),
      option("e2e_ms", &Slo::e2e, "ms", kLatency, "E2E objective: arrival to last token. none: not judged"),
  };
}

std::vector<Option<FairnessOptions>> fairness_options() {
  using F = FairnessOptions;
  constexpr Bounds kTime{0, 3'600'000};
  return {
      option("ttft_ms", &F::ttft, "ms", kTime,
             "T_TTFT in FREESH: TTFT without queueing. 0: that of a single 512-token prompt at the highest clock"),
      option("tbt_ms", &F::tbt, "ms", kTime,
             "T_TBT in FREESH: time between tokens without queueing. 0: that of a single request at the highest clock"),
      option("window", &F::window, "", {0.01, 1000},
             "Alpha in FREESH: for Jain's index, tokens count if they come within this multiple of Lat = T_TTFT + "
             "tokens x T_TBT after arrival"),
      option("limit", &F::limit, "", {0.01, 1000},
             "Beta in FREESH: a request that takes longer than this multiple of Lat is a violation"),
  };
}

std::vector<Option<SpawnOptions>> spawn_options() {
  using S = SpawnOptions;
  return {
      option("load_s", &S::load, "s", {0, 86'400},
             "Time from starting an instance to an engine that answers. Its GPUs draw idle power meanwhile"),
      option("warm_s", &S::warm, "s", {0, 86'400}, "Time from then until the instance takes requests"),
      option("beside_draining", &S::beside_draining,
             "Simulator only: a new instance may use the GPUs of one that is draining at once, both at full speed. "
             "Off: when that one has left, as memory requires"),
  };
}

std::vector<Option<ReshardOptions>> reshard_options() {
  using R = ReshardOptions;
  return {
      option("link_gb_per_s", &R::link_bytes_per_s, "GB/s", {0, 1e6, true},
             "Bandwidth between two GPUs of a node when weights move during a re-shard; each pair has its own link"),
      option("host_gb_per_s", &R::host_bytes_per_s, "GB/s", {0, 1e6, true},
             "Bandwidth for loading weights that no GPU of the node holds"),
      option("sync_s", &R::sync, "s", {0, 86'400}, "Time to start the engine once its weights are in place"),
      option("kv_in_use_gb", &R::kv_in_use_bytes, "GB", {0, 1000},
             "KV cache per GPU that an old instance needs to keep serving until its replacements do. With less free "
             "memory it is stopped first"),
      option("kv_at_start_gb", &R::kv_at_start_bytes, "GB", {0, 1000},
             "KV cache per GPU that a new instance needs to start"),
  };
}

std::vector<Option<MeasurementOptions>> measurement_options() {
  using M = MeasurementOptions;
  return {
      option("profile_scale", &M::profile_scale, "", {0.01, 100},
             "Factor on the step times of the offline profile, to test policies against a wrong profile"),
      option("sample_noise", &M::sample_noise, "", {0, 0.5},
             "Standard deviation of measured step times, offline and online, as a share of the value. The simulated "
             "steps themselves are exact"),
      option("refit_delay_ms", &M::refit_delay, "ms", {0, 3'600'000},
             "Online learning: time from the last sample of a refit until the new model is in use"),
      option("telemetry", &M::telemetry,
             "What the control plane knows of an engine. starts: a report when each step starts, as from our scheduler "
             "plugin; ends: a report when each step has ended, as from SGLang and vLLM, and a heartbeat after a second "
             "of idling; streams: only the responses that pass through the gateway; gauges: periodic readings of the "
             "engine's request counts and KV usage"),
      option("telemetry_period_ms", &M::telemetry_period, "ms", {1, 3'600'000},
             "gauges: time between two readings. streams: time between two checks of their progress"),
  };
}

std::vector<Option<engine::LinkOptions>> link_options() {
  using L = engine::LinkOptions;
  return {
      option("bandwidth_gb_per_s", &L::bandwidth_bytes_per_s, "GB/s", {0, 1e6},
             "Bandwidth of KV transfers from each prefill instance, shared by its transfers in FIFO order. 0: "
             "transfers take no time"),
      option("latency_ms", &L::latency, "ms", {0, 60'000}, "Delay before the first byte of a transfer"),
      option("handoff_steps", &L::handoff_steps, "", {0, 100},
             "Mean number of steps of the decode engine from the KV's arrival until the request joins its batch and "
             "the first token is sent (exponential distribution; SGLang)"),
  };
}

std::vector<Option<engine::ClockDelays>> clock_options() {
  using C = engine::ClockDelays;
  return {
      option("call_ms", &C::call, "ms", {0, 60'000}, "Time that a clock command takes in the driver; NVML: 3 to 8 ms"),
      option("transition_ms", &C::transition, "ms", {0, 60'000},
             "Time from the driver's return until the new clock applies; A100: about 20 ms"),
  };
}

}  // namespace

const std::vector<Option<engine::EngineOptions>>& engine_options() {
  using E = engine::EngineOptions;
  static const std::vector<Option<E>> all{
      option("block_size", &E::block_size, "tokens", {1, 1024}, "Tokens per KV block"),
      option("gpu_memory_utilization", &E::gpu_memory_utilization, "", {0, 1, true},
             "Share of GPU memory used for weights, activations and KV cache"),
      option("activation_gb_per_gpu", &E::activation_bytes_per_gpu, "GB", {0, 1000},
             "Memory per GPU reserved for activations"),
      option("watermark", &E::watermark, "", {0, 0.5}, "Share of KV blocks kept free when a prompt is admitted"),
      option("max_num_seqs", &E::max_num_seqs, "requests", {1, 1'000'000},
             "Maximum number of running requests (of each data-parallel group)"),
      option("max_num_batched_tokens", &E::max_num_batched_tokens, "tokens", {1, 10'000'000},
             "Maximum number of tokens per step (prefill budget; of each data-parallel group)"),
      option("chunked_prefill", &E::chunked_prefill,
             "Colocated: prompts share steps with decodes. Off: a step has either prompts or decodes, and prompts go "
             "first"),
      option("whole_prompts", &E::whole_prompts,
             "Compute each prompt in one step, alone if it exceeds the token budget. Off: prompts are split at the "
             "budget"),
      option("reserve_output", &E::reserve_output,
             "Admit a request only when the KV cache has room for all of its output, and never preempt it. Off: blocks "
             "are allocated as it grows"),
      option("prefix_caching", &E::prefix_caching,
             "Reuse the KV of a prompt's leading blocks if an earlier request left it (vLLM V1's automatic prefix "
             "caching). No effect unless the trace describes prompt contents or workload.prefix_share or session_share "
             "is set"),
      option("speculative_tokens", &E::speculative_tokens, "tokens", {0, 64},
             "Tokens drafted per decoding request and step, which the step then verifies. 0: no speculative decoding"),
      option("acceptance_rate", &E::acceptance_rate, "", {0, 0.999},
             "Probability that a drafted token is accepted if those before it were"),
      option("draft_share", &E::draft_share, "", {0, 1},
             "GPU time and energy for drafting one token for the batch, as a share of a step without drafts: 0 for "
             "n-grams, about one layer's share for EAGLE, the ratio of model sizes for a draft model"),
      option("async_scheduling", &E::async_scheduling,
             "Schedule a step while the previous one runs; a request that arrives meanwhile waits one step longer"),
      option("receive_interval", &E::receive_interval, "steps", {1, 10'000},
             "With async_scheduling: check for new requests after this many steps without prompts, after each step "
             "with prompts, and when nothing runs (SGLang's --scheduler-recv-interval)"),
      option("batch_wait_steps", &E::batch_wait_steps, "steps", {0, 10'000},
             "While requests decode, delay prompts by up to this many steps to batch them (TensorRT-LLM's "
             "batch_wait_timeout_iters). 0: no delay"),
      option("batch_wait_share", &E::batch_wait_share, "", {0, 1},
             "With batch_wait_steps: prompts wait no longer once the step has this share of max_num_batched_tokens"),
      option("framework", &E::framework,
             "Serving framework whose CPU times apply where the gaps below are none (src/engine/framework.h). profile: "
             "those with which the GPU's profile was fitted"),
      option("step_gap_ms", &E::step_gap, "ms", {0, 100},
             "CPU time of the serving framework per step. none: the framework's"),
      option("prompt_gap_ms", &E::prompt_gap, "ms", {0, 1000},
             "Additional CPU time per prompt in a step. none: the framework's"),
      option("prompt_step_gap_ms", &E::prompt_step_gap, "ms", {0, 1000},
             "Additional CPU time of a step with prompts, however many, during which the GPU waits: for engines that "
             "launch prompt kernels without CUDA graphs (vLLM's --enforce-eager or cudagraph_mode FULL_DECODE_ONLY)"),
      option("decode_gap_ms", &E::decode_gap, "ms", {0, 10},
             "Additional CPU time per decoding request in a step. none: the framework's"),
      option("request_gap_ms", &E::request_gap, "ms", {0, 1},
             "GPU time per request in a step for logits and sampling. none: the profile's"),
      option(
          "idle_gpu_w", &E::idle_gpu, "W", {0, 10'000},
          "Power of an idle GPU with the model loaded, at the highest clock. none: the profile's, for a locked clock"),
      option("decode_attention_efficiency", &E::decode_attention_efficiency, "", {0.1, 1},
             "Share of the memory bandwidth that this engine's decode attention reaches when it reads KV. none: that "
             "of the kernels on which the GPU's profile was fitted"),
      option("power_limit_w", &E::power_limit, "W", {0, 100'000, true},
             "Power limit of each GPU, at most its TDP. none: TDP"),
      option("graph_sizes", &E::graph_sizes, "requests", {1, 65'536},
             "Batch sizes for which CUDA graphs were captured, ascending. A step without prompts is padded to the next "
             "of them. Empty: vLLM's 1, 2, 4 and multiples of 8 up to 128"),
      option("launch_share", &E::launch_share, "", {0, 2},
             "Factor on the CPU time for launching the kernels of a step with prompts, for models with experts or "
             "latent attention. Below 1 if CUDA graphs contain some of them (TensorRT-LLM's piecewise graphs)"),
      option("expert_row_block", &E::expert_row_block, "rows", {1, 1024},
             "Row block of the routed experts' matrix products. Each expert on a GPU, used or not, adds a block less "
             "one row of padding. 1: none; 128: DeepGEMM's contiguous layout for decodes (vLLM 0.11 and 0.12 with "
             "block-scaled FP8)"),
  };
  return all;
}

const std::vector<Option<Scenario>>& scenario_options() {
  static const std::vector<Option<Scenario>> options = [] {
    std::vector<Option<Scenario>> all{
        option("name", &Scenario::name, "Name shown in reports. Empty: the file's name"),
        option("description", &Scenario::description, "One or two sentences shown in lists of scenarios"),
        option("seed", &Scenario::seed, "", {0, 9.2e18}, "Seed of all random numbers of a run"),
        option("llm", &Scenario::llm,
               "Served model: a file in specs/llms (without .toml), or the path of a config.json")
            .must(),
    };
    append<Scenario>(all, "workload.", {&Scenario::workload}, workload_options());
    all.push_back(choice("workload.fallback", &Scenario::workload_fallback, {"", "azure-conv"},
                         "Synthetic process to use if the trace file is missing. Empty: a missing trace is an error"));
    all.push_back(
        option("workload.peak_load", &Scenario::peak_load, "", {0, 100},
               "Sets peak_rate_per_s to this share of the maximum load of the largest [[fleet]]. 0: not used"));
    all.push_back(
        option("workload.trough_load", &Scenario::trough_load, "", {0, 100},
               "Sets trough_rate_per_s to this share of the maximum load of the largest [[fleet]]. 0: not used"));
    all.push_back(choice("workload.load_lengths", &Scenario::load_lengths, {"", "azure-conv", "mlperf-openorca"},
                         "Lengths with which the maximum load of a [[fleet]] is measured, by a name as in synthetic. "
                         "Empty: this workload's own"));
    append<Scenario>(all, "spawn.", {&Scenario::spawn}, spawn_options());
    append<Scenario>(all, "reshard.", {&Scenario::reshard}, reshard_options());
    append<Scenario>(all, "measurement.", {&Scenario::measurement}, measurement_options());
    append<Scenario>(all, "slo.", {&Scenario::slo}, slo_options());
    append<Scenario>(all, "classes.", {&Scenario::classes}, class_options());
    append<Scenario>(all, "fairness.", {&Scenario::fairness}, fairness_options());
    append<Scenario>(all, "engine.", {&Scenario::engine}, engine_options());
    append<Scenario>(all, "link.", {&Scenario::link}, link_options());
    append<Scenario>(all, "clock.", {&Scenario::clock_delays}, clock_options());
    all.push_back(option("carbon.intensity_g_per_kwh", &Scenario::carbon_intensity, "g/kWh", {0, 10'000},
                         "Carbon intensity of the electricity, in CO2 equivalents. Only without [[site]]"));
    all.push_back(option("cost.price_usd_per_h", &Scenario::gpu_price, "USD/h", {0, 10'000},
                         "Price of one GPU. Only without [[site]]"));
    all.push_back(option("report.sample_period_s", &Scenario::sample_period, "s", {0.001, 86'400},
                         "Resolution of the time series of power, clock and batch"));
    return all;
  }();
  return options;
}

const std::vector<Option<NodeOptions>>& node_options() {
  using N = NodeOptions;
  static const std::vector<Option<NodeOptions>> options{
      option("node.name", &N::name, "Name of the kind of machine"),
      option("node.gpu", &N::gpu, "Only instances on this GPU are placed there. Empty: any"),
      option("node.site", &N::site, "Only instances of this [[site]] are placed there. Empty: any"),
      option("node.count", &N::count, "nodes", {1, 100'000}, "Number of machines of this kind"),
      option("node.gpus", &N::gpus, "GPUs", {1, 1024}, "GPUs per machine"),
      option("node.idle_gpu_w", &N::idle_gpu, "W", {0, 10'000},
             "Power of a GPU without an instance on a node where other GPUs have one. All GPUs of such a node also "
             "count towards the cost. 0: GPUs without an instance are not counted"),
  };
  return options;
}

const std::vector<Option<FaultOptions>>& fault_options() {
  using F = FaultOptions;
  static const std::vector<Option<FaultOptions>> options{
      option("fault.at_s", &F::at, "s", {0, kYear_s}, "Time of the fault, from the start of the run").must(),
      option("fault.node", &F::node, "", {0, 1e6},
             "Number of the node that fails with all its instances, from 0. none: an instance fails"),
      option("fault.instance", &F::instance, "", {0, 1e6},
             "Number of the instance that fails, from 0; it may also be one that is started later. none: a node fails"),
      option("fault.down_s", &F::down, "s", {0, kYear_s},
             "Time until it is available again. none: never. If the fleet scales, a failed instance does not return; "
             "the scaling policy replaces it"),
      option(
          "fault.clock_share", &F::clock_share, "", {0.01, 1},
          "Nothing fails, but the GPUs run at no more than this share of their highest clock for down_s, whatever "
          "clock is locked, as when they are too hot. The control plane only sees that steps take longer. Of a node: "
          "its instances at that time. none: a failure"),
  };
  return options;
}

const std::vector<Option<PoolOptions>>& pool_options() {
  static const std::vector<Option<PoolOptions>> options{
      option("fleet.role", &PoolOptions::role, "Phases that the instances serve: both, or one of prefill and decode"),
      option("fleet.count", &PoolOptions::count, "instances", {0, 100'000},
             "Number of instances at the start. 0: none, but a scaling policy may start some"),
      option("fleet.gpu", &PoolOptions::gpu, "GPU of the instances: a file in specs/gpus, without .toml").must(),
      option("fleet.site", &PoolOptions::site, "Name of the [[site]] where the instances are. Empty: the first"),
      option("fleet.pool", &PoolOptions::pool,
             "Name of the [[pool]] that says which requests they serve. Empty: the first"),
      option("fleet.tensor_parallel", &PoolOptions::tensor_parallel, "GPUs", {1, 1024},
             "TP degree: GPUs that share each layer's attention. Must divide the model's heads"),
      option("fleet.pipeline_parallel", &PoolOptions::pipeline_parallel, "stages", {1, 64},
             "Pipeline stages that share the model's layers, each of tensor_parallel x data_parallel GPUs"),
      option("fleet.expert_parallel", &PoolOptions::expert_parallel, "", {1, 1024},
             "EP degree: groups of GPUs over which whole experts are distributed. Must divide tensor_parallel x "
             "data_parallel and the number of experts"),
      option("fleet.data_parallel", &PoolOptions::data_parallel, "", {1, 256},
             "DP degree: groups of tensor_parallel GPUs that each hold all attention weights and serve their own "
             "requests, while they share the experts"),
      option("fleet.weight", &PoolOptions::weight, "", {0, 1e6, true},
             "Weight of each instance in weighted round-robin"),
      option("fleet.activation_gb_per_gpu", &PoolOptions::activation_bytes_per_gpu, "GB", {0, 1000},
             "Replaces engine.activation_gb_per_gpu for these instances. 0: not replaced"),
      option("fleet.max_load_per_s", &PoolOptions::max_load_per_s, "1/s", {0, 1e6},
             "Requests per second that one instance carries within max_load_e2e_ms. 0: measured in the simulator"),
      option("fleet.max_load_e2e_ms", &PoolOptions::max_load_e2e, "ms", {0.001, 86'400'000},
             "p99 of E2E latency that a load must meet to count as carried when max_load_per_s is measured. none: "
             "slo.e2e_ms"),
  };
  return options;
}

const std::vector<Option<ClassOptions>>& class_options() {
  constexpr Bounds kBorder{1, 10'000'000};
  static const std::vector<Option<ClassOptions>> options{
      option("prompt_below", &ClassOptions::prompt_below, "tokens", kBorder,
             "Borders between prompt sizes, ascending: [256, 1024] makes S, M and L. Empty: one size"),
      option("output_below", &ClassOptions::output_below, "tokens", kBorder,
             "Borders between predicted output sizes, ascending. A class is a prompt size and an output size, such as "
             "SL. Empty: one size"),
  };
  return options;
}

const std::vector<Option<ClassSloOptions>>& class_slo_options() {
  static const std::vector<Option<ClassSloOptions>> options = [] {
    std::vector<Option<ClassSloOptions>> all{
        option("class.name", &ClassSloOptions::name, "Class to which the objectives below apply, from SS to LL")
            .must()};
    append<ClassSloOptions>(all, "class.", {&ClassSloOptions::slo}, slo_options());
    return all;
  }();
  return options;
}

const std::vector<Option<TierOptions>>& tier_options() {
  static const std::vector<Option<TierOptions>> options = [] {
    std::vector<Option<TierOptions>> all{
        option("tier.name", &TierOptions::name, "Name used by tenants, in the header X-Wattle-Tier and in reports")
            .must(),
        option("tier.factor", &TierOptions::factor, "", {0.001, 1000},
               "Objectives that are not stated here are the class's (or [slo]'s), times this")};
    append<TierOptions>(all, "tier.", {&TierOptions::slo}, slo_options());
    return all;
  }();
  return options;
}

const std::vector<Option<TenantOptions>>& tenant_options() {
  using T = TenantOptions;
  static const std::vector<Option<TenantOptions>> options{
      option("tenant.name", &T::name, "Name used in the header X-Wattle-Tenant, in the journal and in reports").must(),
      option("tenant.share", &T::share, "", {0, 1e6}, "Weight of this tenant among the tenants of simulated requests"),
      option("tenant.tier", &T::tier, "Name of the [[tier]] of its requests. Empty: the first"),
      option("tenant.origin", &T::origin, "Name of the [[site]] of its clients. Empty: the first"),
      option("tenant.priority", &T::priority, "", {-1'000'000, 1'000'000},
             "Priority of its requests; higher values go first if a policy uses priorities"),
      option("tenant.residency", &T::residency,
             "Names of the [[site]]s that may compute its requests, separated by commas. Empty: any"),
  };
  return options;
}

const std::vector<Option<ServingPoolOptions>>& serving_pool_options() {
  static const std::vector<Option<ServingPoolOptions>> options{
      option("pool.name", &ServingPoolOptions::name, "Name used by fleet.pool and in reports").must(),
      option("pool.classes", &ServingPoolOptions::classes,
             "Names of the classes it serves, separated by spaces, such as \"SS SM\". Empty: all"),
  };
  return options;
}

}  // namespace wattle::config
