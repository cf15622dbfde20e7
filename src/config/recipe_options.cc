#include <string_view>

#include "config/records.h"

namespace wattle::config {

template <>
struct Codec<Mode> : NamedCodec<Mode, Codec<Mode>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, Mode>>(
        {{"enforce", Mode::Enforce}, {"shadow", Mode::Shadow}, {"off", Mode::Off}});
  }
};

namespace {

constexpr const char* kModeText = "enforce: decide and act; shadow: decide and journal only; off: do not ask";
constexpr Bounds kClock{0, 10'000};

std::vector<Option<FrequencyOptions>> frequency_options() {
  using F = FrequencyOptions;
  return {
      choice("policy", &F::policy, {"static", "idle-parking", "eco-freq", "throttllem", "retail"},
             "What chooses an instance's clock"),
      option("mode", &F::mode, kModeText),
      option("clock_mhz", &F::clock, "MHz", kClock, "static, idle-parking: the clock while busy; 0: the GPU's maximum"),
      option("idle_clock_mhz", &F::idle_clock, "MHz", kClock,
             "Clock of an instance without work; 0: the GPU's minimum"),
      option("park_idle", &F::park_idle, "static, eco-freq, throttllem: lock idle_clock_mhz while idle"),
      option("clocks_mhz", &F::clocks, "MHz", {1, 10'000},
             "eco-freq: the clocks to choose from, ascending; throttllem, retail: likewise, every step of the GPU when "
             "empty"),
      option("lowest_clock_mhz", &F::lowest_clock, "MHz", kClock,
             "throttllem, retail, with clocks_mhz empty: steps of the GPU below this are left out (ours: below its "
             "energy-optimal clock the same batch takes longer and more energy); 0: none (paper)"),
      option("margin", &F::margin, "", {0, 0.95},
             "eco-freq, throttllem: share of the SLO kept in reserve; reports use the stated SLO"),
      option("dwell_ms", &F::dwell, "ms", {0, 3'600'000}, "eco-freq: shortest time from a raise to the next decrease"),
      option("overrun_ms", &F::overrun, "ms", {0, 600'000},
             "eco-freq: a step that outlasts its prediction by this much raises the clock at once; 0: never"),
      option("window_ms", &F::window, "ms", {0, 3'600'000}, "eco-freq: decide at most this often; 0: every iteration"),
      option("on_leave", &F::on_leave,
             "throttllem: choose again when a request ends or outlives its prediction; off: on admission only (paper)"),
      option("max_while_held", &F::max_while_held,
             "throttllem: highest clock while requests are held; off: the clock does not know of the queue (paper)"),
  };
}

std::vector<Option<RoutingOptions>> routing_options() {
  using R = RoutingOptions;
  return {
      choice(
          "policy", &R::policy,
          {"round-robin", "least-loaded", "power-of-two", "random", "weighted-round-robin", "eco-route", "tile-aware"},
          "What chooses a request's instance; eco-route is for the decode leg"),
      option("mode", &R::mode, kModeText),
      option("max_spread_mhz", &R::max_spread, "MHz", {0, 10'000},
             "eco-route: delta; a request that would widen the spread of clocks further is placed by beyond_spread"),
      choice("beyond_spread", &R::beyond_spread, {"lowest-resulting", "lowest-current"},
             "eco-route, case 2(b): the instance with the lowest clock after (GreenServe) or before (VoltanaLLM) it "
             "gets the request"),
      choice(
          "borders", &R::borders, {"clocks", "tiles"},
          "eco-route: clocks = a request is dear where it raises a clock (paper); tiles = there, and where it begins "
          "a tile of the batch; fills tiles, and max_spread and beyond_spread play no part"),
      option("spare_overloaded", &R::spare_overloaded,
             "eco-route: no request to an instance that even its highest clock could not keep within slo.itl_ms, while "
             "another instance can; off: paper"),
      option("overload_margin", &R::overload_margin, "share", {0, 0.99},
             "eco-route: share of slo.itl_ms kept in reserve there, whatever frequency.margin is"),
      option("tile_requests", &R::tile_requests, "requests", {1, 1'000'000}, "tile-aware: requests in a tile"),
  };
}

std::vector<Option<QueueingOptions>> queueing_options() {
  return {
      choice("policy", &QueueingOptions::policy, {"fcfs"}, "Order of held requests"),
      option("mode", &QueueingOptions::mode, kModeText),
  };
}

std::vector<Option<AdmissionOptions>> admission_options() {
  using A = AdmissionOptions;
  return {
      choice("policy", &A::policy, {"always", "bounded", "throttllem", "retail"},
             "What admits, holds or rejects a request"),
      option("mode", &A::mode, kModeText),
      option("max_in_flight_per_instance", &A::max_in_flight_per_instance, "requests", {1, 1'000'000'000},
             "bounded: beyond, requests are held"),
      option("max_held", &A::max_held, "requests", {0, 1'000'000'000}, "bounded: beyond, requests are rejected"),
      option("margin", &A::margin, "", {0, 0.95},
             "throttllem, retail: share of slo.tbt_ms and slo.e2e_ms kept in reserve; reports use the stated SLO"),
      option("length_inflation", &A::length_inflation, "", {0, 100},
             "throttllem, retail: predicted lengths are taken this share longer"),
      option("grace_iterations", &A::grace_iterations, "iterations", {0, 1'000'000},
             "throttllem: a request may outlive its prediction by so many before it is projected at max_tokens"),
      choice("overrun", &A::overrun, {"limit", "residual"},
             "throttllem: a request that outlives its prediction is projected at max_tokens (paper), or first at what "
             "requests as long have become so far"),
      option("count_prefill", &A::count_prefill,
             "throttllem: admission counts computing prompts against running requests' deadlines; off: paper"),
  };
}

std::vector<Option<PredictorOptions>> predictor_options() {
  using P = PredictorOptions;
  return {
      choice(
          "form", &P::form, {"linear", "linear-published", "gbdt", "gbdt-published", "gbdt-residual", "ips"},
          "What is believed of step times: VoltanaLLM's lines, GreenServe's trees or throttLL'eM's model M; "
          "published: prefill by the papers' features and forms alone; residual: trees on what the lines leave over"),
      option("online", &P::online, "Learn on from served steps; worse models are rolled back"),
      option("refit", &P::refit, "online: off: measure how well steps are predicted, learn nothing"),
      option("refit_every", &P::refit_every, "samples", {10, 10'000'000}, "online: new samples between two refits"),
      option("ring", &P::ring, "samples", {10, 10'000'000}, "online: newest samples kept to learn from"),
      option("window", &P::window, "samples", {4, 10'000'000},
             "online: newest samples that judge a model; at most ring"),
      option("refit_delay_ms", &P::refit_delay, "ms", {0, 3'600'000},
             "online, simulator: from the refit's last sample to the new model"),
      option("profile_scale", &P::profile_scale, "", {0.01, 100},
             "The offline profile's durations times this: an engine profiled wrongly, for experiments"),
      option(
          "sample_noise", &P::sample_noise, "", {0, 0.5},
          "simulator: standard deviation, as a share, by which every measured step time scatters, offline and served, "
          "as a real engine's do; the simulated steps themselves do not"),
  };
}

std::vector<Option<LengthOptions>> length_options() {
  return {
      choice("source", &LengthOptions::source, {"none", "oracle", "classes", "learned"},
             "What predicts output lengths; oracle: the simulator's truth, with an error of error_p95; classes: a "
             "five-class classifier as good as the measured BERT proxy model (simulator); learned: online, by tenant "
             "and prompt length"),
      option("error_p95", &LengthOptions::error_p95, "", {0, 10},
             "oracle: Gaussian error; 95 % of predictions are off by at most this share of the true length"),
      option("quantile", &LengthOptions::quantile, "", {0.001, 0.999},
             "learned: share of answers that are to be no longer than predicted; classes: likewise, 0.5 or, above it, "
             "0.9"),
      option("fall_back", &LengthOptions::fall_back,
             "The quantile of all lengths seen answers while it predicts no worse, and where there is no prediction"),
  };
}

std::vector<Option<ScalingOptions>> scaling_options() {
  using S = ScalingOptions;
  return {
      choice("policy", &S::policy, {"none", "smallest-engine"},
             "What starts and drains instances; smallest-engine: one, the smallest [[fleet]] that carries the rate "
             "(throttLL'eM)"),
      option("mode", &S::mode, kModeText),
      option("period_s", &S::period, "s", {0.001, 86'400}, "How often it plans"),
      option("margin", &S::margin, "", {0, 0.95}, "smallest-engine: share of each maximum load kept free; paper: 0"),
      option("grace_s", &S::grace, "s", {0, 86'400},
             "smallest-engine: how long a new instance gives way to larger ones only; none: its spawn time (paper)"),
  };
}

}  // namespace

const std::vector<Option<Recipe>>& recipe_options() {
  static const std::vector<Option<Recipe>> options = [] {
    std::vector<Option<Recipe>> all{
        option("name", &Recipe::name, "Shown in reports; the file's name when absent"),
        option("description", &Recipe::description, "One or two sentences for `wattle recipes`"),
    };
    all.push_back(option("predictor_file", &Recipe::predictor_file,
                         "linear: a belief file of `wattle fit PROFILE`, by its path or beside the recipe, to believe "
                         "instead of profiling the simulated engine"));
    append<Recipe>(all, "predictor.", {&Recipe::predictor}, predictor_options());
    // Shorthands first: what comes later refines them.
    append<Recipe>(all, "frequency.", {&Recipe::prefill_frequency, &Recipe::decode_frequency}, frequency_options());
    append<Recipe>(all, "frequency.prefill.", {&Recipe::prefill_frequency}, frequency_options());
    append<Recipe>(all, "frequency.decode.", {&Recipe::decode_frequency}, frequency_options());
    append<Recipe>(all, "routing.", {&Recipe::route_prefill, &Recipe::route_decode}, routing_options());
    append<Recipe>(all, "routing.prefill.", {&Recipe::route_prefill}, routing_options());
    append<Recipe>(all, "routing.decode.", {&Recipe::route_decode}, routing_options());
    append<Recipe>(all, "queueing.", {&Recipe::queueing}, queueing_options());
    append<Recipe>(all, "admission.", {&Recipe::admission}, admission_options());
    append<Recipe>(all, "length.", {&Recipe::length}, length_options());
    append<Recipe>(all, "scaling.", {&Recipe::scaling}, scaling_options());
    return all;
  }();
  return options;
}

}  // namespace wattle::config
