#include <string_view>

#include "config/records.h"

namespace wattle::config {

template <>
struct Codec<engine::Framework> : NamedCodec<engine::Framework, Codec<engine::Framework>> {
  static constexpr const auto& names() { return engine::kFrameworks; }
};

template <>
struct Codec<Role> : NamedCodec<Role, Codec<Role>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, Role>>(
        {{"colocated", Role::Colocated}, {"prefill", Role::Prefill}, {"decode", Role::Decode}});
  }
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
             "Of the requests whose trace does not say what prompts consist of (Mooncake's hash_ids) and that go on "
             "with no conversation, so many begin with a system prompt that others have, too"),
      option("prefixes", &P::prefixes, "", {1, 1e6}, "System prompts, one as likely as another"),
      option("prefix_tokens", &P::tokens, "tokens", {16, 10'000'000}, "Length of each, in whole blocks of 16"),
      option("session_share", &P::session_share, "", {0, 1},
             "So many of those requests go on with a conversation: the prompt begins with an earlier one, as far as "
             "both reach. Lengths stay as they come"),
      option("sessions", &P::sessions, "", {1, 1e6}, "Conversations that may go on; a new one ends the oldest"),
  };
}

std::vector<Option<workload::WorkloadOptions>> workload_options() {
  using W = workload::WorkloadOptions;
  constexpr Bounds kTokens{1, 10'000'000};
  constexpr Bounds kMean{0, 1e7, true};
  constexpr Bounds kDeviation{0, 1e7};
  std::vector<Option<W>> all{
      option("trace", &W::trace,
             "Trace file to replay; a relative path is looked up in WATTLE_DATA, then beside the scenario. Empty: "
             "synthetic arrivals"),
      option("format", &W::format,
             "What wrote the trace file. counts: rows Time,TIMESTAMP of a bin's time and its number of requests, whose "
             "lengths are drawn from the histograms in lengths"),
      option("rate_scale", &W::rate_scale, "", {1e-6, 1e6},
             "Arrival rate against the trace's own: 2 sends the same requests in half the time"),
      option("peak_rate_per_s", &W::peak_rate_per_s, "1/s", {0, 1e6},
             "Scales arrivals in time until the busiest rate_window_s has this rate; 0: as they come"),
      option("trough_rate_per_s", &W::trough_rate_per_s, "1/s", {0, 1e6},
             "Leaves out requests, the more the calmer it is, until the calmest window has this rate; 0: none"),
      option("rate_window_s", &W::rate_window, "s", {1, 86'400}, "Window of peak_rate_per_s and trough_rate_per_s"),
      option("copies", &W::copies, "", {0, 1e4, true},
             "Every request comes so often on average, below 1 some are left out: a service so many times as busy in "
             "the same time"),
      option("copies_spread_s", &W::copies_spread, "s", {0, 86'400}, "A copy comes up to this much later"),
      option("start_s", &W::start, "s", {0, kYear_s}, "Where the replayed slice begins, in the trace's own time"),
      option("duration_s", &W::duration, "s", {1e-6, kYear_s},
             "Length of the replayed slice, in the trace's own time; none: to the end"),
      option("max_prompt_tokens", &W::max_prompt_tokens, "tokens", kTokens, "Longer prompts are clamped, and counted"),
      option("max_output_tokens", &W::max_output_tokens, "tokens", kTokens, "Longer outputs are clamped, and counted"),
      choice(
          "synthetic", &W::synthetic, {"", "azure-conv", "mlperf-openorca"},
          "Named synthetic process instead of the keys below; only without a trace. azure-conv: the statistics of the "
          "Azure 2023 conversation trace; mlperf-openorca: the lengths of MLPerf's Llama-2-70B benchmark, arriving as "
          "rate_per_s and arrival_cv say"),
      option("rate_per_s", &W::rate_per_s, "1/s", {0, 1e6, true}, "Synthetic: mean arrival rate"),
      option("arrival_cv", &W::arrival_cv, "", {0, 100},
             "Synthetic: coefficient of variation between arrivals; 0 is even spacing, 1 Poisson, else Gamma"),
      option("requests", &W::requests, "", {1, 1e10}, "Synthetic: number of requests"),
      option("lengths", &W::lengths,
             "Synthetic: CSV of (prompt, output) token pairs to draw from; empty: lognormal lengths. Counts: CSV of "
             "service,field,bin_lo,bin_hi,share"),
      option("service", &W::service, "Counts: whose lengths of that file"),
      option("prompt_mean", &W::prompt_mean, "tokens", kMean, "Synthetic lognormal: mean prompt length"),
      option("prompt_std", &W::prompt_std, "tokens", kDeviation, "Synthetic lognormal: deviation of prompt length"),
      option("output_mean", &W::output_mean, "tokens", kMean, "Synthetic lognormal: mean output length"),
      option("output_std", &W::output_std, "tokens", kDeviation, "Synthetic lognormal: deviation of output length"),
  };
  append<W>(all, "", {&W::prefix}, prefix_options());
  return all;
}

std::vector<Option<Slo>> slo_options() {
  constexpr Bounds kLatency{0.001, 86'400'000};
  return {
      option("ttft_ms", &Slo::ttft, "ms", kLatency, "Time to first token; none: not judged"),
      option("itl_ms", &Slo::itl, "ms", kLatency,
             "Gap between two tokens: itl_attainment counts gaps, attainment requests by their mean gap; none: not "
             "judged"),
      option("tbt_ms", &Slo::tbt, "ms", kLatency, "A request's mean gap between tokens; none: not judged"),
      option("e2e_ms", &Slo::e2e, "ms", kLatency, "Arrival to last token; none: not judged"),
  };
}

std::vector<Option<FairnessOptions>> fairness_options() {
  using F = FairnessOptions;
  constexpr Bounds kTime{0, 3'600'000};
  return {
      option("ttft_ms", &F::ttft, "ms", kTime,
             "T_TTFT: to the first token where nobody waits; 0: of a prompt of 512 tokens alone at the highest clock"),
      option("tbt_ms", &F::tbt, "ms", kTime, "T_TBT: between tokens where nobody waits; 0: of one request alone"),
      option(
          "window", &F::window, "", {0.01, 1000},
          "alpha: tokens within so many times Lat = T_TTFT + tokens x T_TBT of the arrival are in time (Jain index)"),
      option("limit", &F::limit, "", {0.01, 1000},
             "beta: a request that takes more than so many times Lat is a violation"),
  };
}

std::vector<Option<SpawnOptions>> spawn_options() {
  using S = SpawnOptions;
  return {
      option("load_s", &S::load, "s", {0, 86'400},
             "Scaling: from starting an instance to an engine that answers; its GPUs draw their idle power"),
      option("warm_s", &S::warm, "s", {0, 86'400}, "Scaling: from then to an instance that takes requests"),
      option(
          "beside_draining", &S::beside_draining,
          "Scaling, simulated: who comes next has the GPUs of one that drains at once, both at full speed; off: once "
          "it is gone, as memory has it"),
  };
}

std::vector<Option<ReshardOptions>> reshard_options() {
  using R = ReshardOptions;
  return {
      option("link_gb_per_s", &R::link_bytes_per_s, "GB/s", {0, 1e6, true},
             "Re-sharding: weights from GPU to GPU, each pair by a link of its own"),
      option("host_gb_per_s", &R::host_bytes_per_s, "GB/s", {0, 1e6, true},
             "Re-sharding: weights that no GPU of the node holds"),
      option("sync_s", &R::sync, "s", {0, 86'400}, "Re-sharding: the engine's start once its weights are in place"),
      option(
          "kv_in_use_gb", &R::kv_in_use_bytes, "GB", {0, 1000},
          "Re-sharding: KV cache that an old instance needs on each GPU to serve until the new ones do; with less it "
          "leaves first"),
      option("kv_at_start_gb", &R::kv_at_start_bytes, "GB", {0, 1000},
             "Re-sharding: KV cache that a new instance needs on each GPU to begin"),
  };
}

std::vector<Option<MeasurementOptions>> measurement_options() {
  using M = MeasurementOptions;
  return {
      option("profile_scale", &M::profile_scale, "", {0.01, 100},
             "The offline profile's durations times this: an engine profiled wrongly, for experiments"),
      option("sample_noise", &M::sample_noise, "", {0, 0.5},
             "Standard deviation, as a share, by which every measured step time scatters, offline and served, as a "
             "real engine's do; the simulated steps themselves do not"),
      option("refit_delay_ms", &M::refit_delay, "ms", {0, 3'600'000},
             "Predictors that learn on: from the refit's last sample to the new model"),
      option(
          "telemetry", &M::telemetry,
          "What is known of an engine. ends: reports of steps that have ended, as SGLang and vLLM send them, with a "
          "heartbeat when one has been idle for a second; starts: of steps that start, as with our scheduler plugin; "
          "streams: nothing but what goes through the gateway; gauges: its own counts of requests and its resident "
          "context, read now and then"),
      option("telemetry_period_ms", &M::telemetry_period, "ms", {1, 3'600'000},
             "gauges: from one reading to the next; streams: how often their growth is looked at"),
  };
}

std::vector<Option<engine::LinkOptions>> link_options() {
  using L = engine::LinkOptions;
  return {
      option("bandwidth_gb_per_s", &L::bandwidth_bytes_per_s, "GB/s", {0, 1e6},
             "KV hand-over per prefill instance, shared by its transfers in FIFO order; 0: no transfer time"),
      option("latency_ms", &L::latency, "ms", {0, 60'000}, "Delay before a transfer's first byte"),
      option("handoff_steps", &L::handoff_steps, "", {0, 100},
             "Mean of the passes of the decode engine's loop from the KV's arrival until it takes the request into its "
             "batch and sends the first token (exponential), each as long as the step then in progress (SGLang)"),
  };
}

std::vector<Option<engine::ClockDelays>> clock_options() {
  using C = engine::ClockDelays;
  return {
      option("call_ms", &C::call, "ms", {0, 60'000}, "From command to driver return; NVML takes 3 to 8"),
      option("transition_ms", &C::transition, "ms", {0, 60'000}, "From driver return to the new clock; A100 about 20"),
  };
}

}  // namespace

const std::vector<Option<engine::EngineOptions>>& engine_options() {
  using E = engine::EngineOptions;
  static const std::vector<Option<E>> all{
      option("block_size", &E::block_size, "tokens", {1, 1024}, "KV tokens per block"),
      option("gpu_memory_utilization", &E::gpu_memory_utilization, "", {0, 1, true},
             "Share of device memory for weights, activations and KV"),
      option("activation_gb_per_gpu", &E::activation_bytes_per_gpu, "GB", {0, 1000},
             "Set aside on each GPU before KV blocks are counted"),
      option("watermark", &E::watermark, "", {0, 0.5}, "Share of KV blocks kept free when admitting a prompt"),
      option("max_num_seqs", &E::max_num_seqs, "requests", {1, 1'000'000}, "Requests running at once"),
      option("max_num_batched_tokens", &E::max_num_batched_tokens, "tokens", {1, 10'000'000},
             "Tokens computed per step (prefill budget)"),
      option("chunked_prefill", &E::chunked_prefill,
             "Colocated: prompts share steps with decodes; else a step has prompts or decodes, and prompts go first"),
      option("whole_prompts", &E::whole_prompts,
             "A prompt is computed in one step, alone if it is longer than the budget; else it is split where the "
             "budget ends"),
      option("reserve_output", &E::reserve_output,
             "A request is admitted once the KV cache has room for its last token, and never preempted; else blocks "
             "are taken as it grows"),
      option("prefix_caching", &E::prefix_caching,
             "A prompt's leading blocks are not computed where an earlier request left their KV (vLLM V1's automatic "
             "prefix caching). Nothing without a trace that says what prompts consist of, or workload.prefix_share"),
      option("speculative_tokens", &E::speculative_tokens, "tokens", {0, 64},
             "Drafted for each decoding request in each step, which verifies them; 0: no speculative decoding"),
      option("acceptance_rate", &E::acceptance_rate, "", {0, 0.999},
             "Probability that a drafted token is accepted, those before it being so"),
      option("draft_share", &E::draft_share, "", {0, 1},
             "GPU time and energy of drafting one token for the batch, of those of a step without drafts: 0 for "
             "n-grams, about one layer's share for EAGLE, the ratio of sizes for a draft model"),
      option("async_scheduling", &E::async_scheduling,
             "A step is put together while its predecessor runs: who arrives then waits one step more"),
      option("receive_interval", &E::receive_interval, "steps", {1, 10'000},
             "With async_scheduling: new requests are looked for after so many steps without prompts, after one with, "
             "and when nothing runs (SGLang's --scheduler-recv-interval)"),
      option("batch_wait_steps", &E::batch_wait_steps, "steps", {0, 10'000},
             "While others decode, prompts wait for more of them: for so many steps (TensorRT-LLM's "
             "batch_wait_timeout_iters)"),
      option("batch_wait_share", &E::batch_wait_share, "", {0, 1},
             "Of max_num_batched_tokens: with so many tokens in the step they wait no longer"),
      option("framework", &E::framework,
             "Whose CPU times hold where the gaps below are none (src/engine/framework.h); profile: those the GPU's "
             "profile was fitted with"),
      option("step_gap_ms", &E::step_gap, "ms", {0, 100},
             "The serving framework's CPU time per step; none: the framework's"),
      option("prompt_gap_ms", &E::prompt_gap, "ms", {0, 1000}, "The same per prompt of a step; none: the framework's"),
      option("prompt_step_gap_ms", &E::prompt_step_gap, "ms", {0, 1000},
             "Beside step_gap_ms, of a step with prompts, however many: where the engine starts their kernels without "
             "CUDA graphs (vLLM's --enforce-eager, cudagraph_mode FULL_DECODE_ONLY) and the GPU waits for it"),
      option("decode_gap_ms", &E::decode_gap, "ms", {0, 10},
             "The same per decoding request of a step; none: the framework's"),
      option("request_gap_ms", &E::request_gap, "ms", {0, 1},
             "Time per request of a step for logits and sampling, the GPU busy; none: the profile's"),
      option("idle_gpu_w", &E::idle_gpu, "W", {0, 10'000},
             "Draw of a GPU that waits with the model loaded, at the highest clock; none: the profile's, of a locked "
             "clock"),
      option(
          "decode_attention_efficiency", &E::decode_attention_efficiency, "", {0.1, 1},
          "Share of the memory bandwidth at which this engine's decode attention reads KV; none: that of the kernels "
          "the GPU's profile was fitted on"),
      option("power_limit_w", &E::power_limit, "W", {0, 100'000, true},
             "Power limit of each GPU, at most its TDP; none: TDP"),
      option(
          "graph_sizes", &E::graph_sizes, "requests", {1, 65'536},
          "Batches for which CUDA graphs were captured, ascending: a step of decodes alone computes the next of them "
          "whole. Empty: vLLM's 1, 2, 4 and eights to 128"),
      option(
          "launch_share", &E::launch_share, "", {0, 2},
          "Of the framework's CPU time of starting the kernels of a step with prompts (models with experts or latent "
          "attention): what is left where CUDA graphs hold some of them (TensorRT-LLM's piecewise graphs)"),
      option("expert_row_block", &E::expert_row_block, "rows", {1, 1024},
             "The routed experts' products compute a block less one of rows for each expert of a GPU beside the "
             "tokens', touched or not (128: DeepGEMM's contiguous layout for decodes, vLLM 0.11 and 0.12 with "
             "block-scaled FP8)"),
  };
  return all;
}

const std::vector<Option<Scenario>>& scenario_options() {
  static const std::vector<Option<Scenario>> options = [] {
    std::vector<Option<Scenario>> all{
        option("name", &Scenario::name, "Shown in reports; the file's name when absent"),
        option("description", &Scenario::description, "One or two sentences for lists of scenarios"),
        option("seed", &Scenario::seed, "", {0, 9.2e18}, "Seed of every random stream of a run"),
        option("llm", &Scenario::llm, "Served model: a file in specs/llms, without .toml").must(),
    };
    append<Scenario>(all, "workload.", {&Scenario::workload}, workload_options());
    all.push_back(choice("workload.fallback", &Scenario::workload_fallback, {"", "azure-conv"},
                         "Stand-in to synthesise when the trace file is absent; empty: that is an error"));
    all.push_back(option("workload.peak_load", &Scenario::peak_load, "", {0, 100},
                         "peak_rate_per_s as a share of the maximum load of the largest [[fleet]]; 0: not so"));
    all.push_back(option("workload.trough_load", &Scenario::trough_load, "", {0, 100},
                         "trough_rate_per_s as a share of the maximum load of the largest [[fleet]]; 0: not so"));
    all.push_back(choice("workload.load_lengths", &Scenario::load_lengths, {"", "azure-conv", "mlperf-openorca"},
                         "Whose lengths a [[fleet]]'s maximum load is measured with: a name as for synthetic; empty: "
                         "this workload's own"));
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
                         "Carbon intensity of the fleet's electricity, CO2 equivalents; only without [[site]]"));
    all.push_back(option("cost.price_usd_per_h", &Scenario::gpu_price, "USD/h", {0, 10'000},
                         "Price of one GPU; only without [[site]]"));
    all.push_back(option("report.sample_period_s", &Scenario::sample_period, "s", {0.001, 86'400},
                         "Period of the time series (power, clock, batch)"));
    return all;
  }();
  return options;
}

const std::vector<Option<NodeOptions>>& node_options() {
  using N = NodeOptions;
  static const std::vector<Option<NodeOptions>> options{
      option("node.name", &N::name, "What it is called"),
      option("node.gpu", &N::gpu, "Only a [[fleet]] of this GPU is placed there; empty: any"),
      option("node.site", &N::site, "Only a [[fleet]] of this [[site]] is placed there; empty: any"),
      option("node.count", &N::count, "nodes", {1, 100'000}, "Equal machines"),
      option("node.gpus", &N::gpus, "GPUs", {1, 1024}, "GPUs of one"),
      option(
          "node.idle_gpu_w", &N::idle_gpu, "W", {0, 10'000},
          "Draw of a GPU without an instance while others of its node have some; the node is then in use, and all of "
          "its GPUs cost. 0: such GPUs are not accounted for"),
  };
  return options;
}

const std::vector<Option<FaultOptions>>& fault_options() {
  using F = FaultOptions;
  static const std::vector<Option<FaultOptions>> options{
      option("fault.at_s", &F::at, "s", {0, kYear_s}, "When it happens").must(),
      option("fault.node", &F::node, "", {0, 1e6},
             "This node with all that is on it, counted from 0; none: an instance"),
      option("fault.instance", &F::instance, "", {0, 1e6}, "This instance, also one that comes later; none: a node"),
      option("fault.down_s", &F::down, "s", {0, kYear_s},
             "Until it is there again; none: never. A fleet that scales "
             "replaces instances, which do not come back"),
  };
  return options;
}

const std::vector<Option<PoolOptions>>& pool_options() {
  static const std::vector<Option<PoolOptions>> options{
      option("fleet.role", &PoolOptions::role, "What the pool's instances do"),
      option("fleet.count", &PoolOptions::count, "instances", {0, 100'000},
             "Equal instances in the pool at the start; 0: a shape that a scaling policy may start"),
      option("fleet.gpu", &PoolOptions::gpu, "GPU: a file in specs/gpus, without .toml").must(),
      option("fleet.site", &PoolOptions::site, "Where it stands: the name of a [[site]]; empty: the first"),
      option("fleet.pool", &PoolOptions::pool, "Which requests it serves: the name of a [[pool]]; empty: the first"),
      option("fleet.tensor_parallel", &PoolOptions::tensor_parallel, "GPUs", {1, 1024},
             "GPUs that share a layer's attention, and all of one instance where the next three are 1; must divide the "
             "model's heads"),
      option("fleet.pipeline_parallel", &PoolOptions::pipeline_parallel, "stages", {1, 64},
             "Stages that share the model's layers, each of tensor_parallel x data_parallel GPUs"),
      option("fleet.expert_parallel", &PoolOptions::expert_parallel, "", {1, 1024},
             "Parts in which a layer's experts are kept whole; must divide tensor_parallel x data_parallel and the "
             "model's experts"),
      option("fleet.data_parallel", &PoolOptions::data_parallel, "", {1, 256},
             "Groups of tensor_parallel GPUs with attention weights and requests of their own, experts shared"),
      option("fleet.weight", &PoolOptions::weight, "", {0, 1e6, true}, "Share in weighted round-robin"),
      option("fleet.activation_gb_per_gpu", &PoolOptions::activation_bytes_per_gpu, "GB", {0, 1000},
             "Instead of engine.activation_gb_per_gpu; 0: that"),
      option("fleet.max_load_per_s", &PoolOptions::max_load_per_s, "1/s", {0, 1e6},
             "Requests per second one instance carries without long tail latencies; 0: measured in the simulator"),
      option("fleet.max_load_e2e_ms", &PoolOptions::max_load_e2e, "ms", {0.001, 86'400'000},
             "p99 of E2E latency up to which a load counts as carried when it is measured; none: slo.e2e_ms"),
  };
  return options;
}

const std::vector<Option<ClassOptions>>& class_options() {
  constexpr Bounds kBorder{1, 10'000'000};
  static const std::vector<Option<ClassOptions>> options{
      option("prompt_below", &ClassOptions::prompt_below, "tokens", kBorder,
             "Borders between sizes of prompts, ascending; [256, 1024] makes S, M and L. Empty: prompts are one size"),
      option("output_below", &ClassOptions::output_below, "tokens", kBorder,
             "Borders between sizes of answers as predicted, likewise. A class is a pair of sizes, such as SL"),
  };
  return options;
}

const std::vector<Option<ClassSloOptions>>& class_slo_options() {
  static const std::vector<Option<ClassSloOptions>> options = [] {
    std::vector<Option<ClassSloOptions>> all{
        option("class.name", &ClassSloOptions::name, "The class whose objectives these are: SS to LL").must()};
    append<ClassSloOptions>(all, "class.", {&ClassSloOptions::slo}, slo_options());
    return all;
  }();
  return options;
}

const std::vector<Option<TierOptions>>& tier_options() {
  static const std::vector<Option<TierOptions>> options = [] {
    std::vector<Option<TierOptions>> all{
        option("tier.name", &TierOptions::name, "What tenants, X-Wattle-Tier and the report call it").must(),
        option("tier.factor", &TierOptions::factor, "", {0.001, 1000},
               "Objectives it does not state are the class's, else [slo]'s, times this")};
    append<TierOptions>(all, "tier.", {&TierOptions::slo}, slo_options());
    return all;
  }();
  return options;
}

const std::vector<Option<TenantOptions>>& tenant_options() {
  using T = TenantOptions;
  static const std::vector<Option<TenantOptions>> options{
      option("tenant.name", &T::name, "What X-Wattle-Tenant, the journal and the report call it").must(),
      option("tenant.share", &T::share, "", {0, 1e6}, "Of the simulated requests, against the other tenants'"),
      option("tenant.tier", &T::tier, "Its requests' tier: the name of a [[tier]]; empty: the first"),
      option("tenant.origin", &T::origin, "Where its clients are: the name of a [[site]]; empty: the first"),
      option("tenant.priority", &T::priority, "", {-1'000'000, 1'000'000},
             "Of its requests; higher first where a policy asks"),
      option("tenant.residency", &T::residency,
             "Where its requests may be computed: names of [[site]]s with commas between them; empty: anywhere"),
  };
  return options;
}

const std::vector<Option<ServingPoolOptions>>& serving_pool_options() {
  static const std::vector<Option<ServingPoolOptions>> options{
      option("pool.name", &ServingPoolOptions::name, "What fleet.pool and the report call it").must(),
      option("pool.classes", &ServingPoolOptions::classes,
             "The classes it is for, with blanks between them, such as \"SS SM\"; empty: all"),
  };
  return options;
}

}  // namespace wattle::config
