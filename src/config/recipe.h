#pragma once
// What a recipe file says: a named composition of policies and their options.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/decision.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::config {

struct FrequencyOptions {
  std::string policy = "static";  ///< recipe_options.cc lists the names
  Mode mode = Mode::Enforce;
  MegaHertz clock{0};             ///< static, idle-parking: the clock while busy; 0 = the GPU's maximum
  MegaHertz idle_clock{0};        ///< clock of an instance without work; 0 = the GPU's minimum
  bool park_idle = false;         ///< static and eco-freq: lock idle_clock while idle
  std::vector<MegaHertz> clocks;  ///< eco-freq's options, ascending
  MegaHertz lowest_clock{0};      ///< throttllem, retail, without clocks: the lowest step chosen; 0 = the GPU's minimum
  double margin = 0.0;            ///< eco-freq: share of the SLO kept in reserve; reports use the stated SLO
  Span dwell = Span::ms(200);     ///< eco-freq: shortest time between a raise and the next decrease
  Span overrun{Span::ms(5)};      ///< eco-freq: a step this much over its prediction raises the clock; 0 = never
  Span window;                    ///< eco-freq: decide at most this often; 0 = at every iteration
  bool on_leave = false;          ///< throttllem: choose again when a request ends or outlives its prediction
  bool max_while_held = false;    ///< throttllem: highest clock while requests are held
};

struct RoutingOptions {
  std::string policy = "round-robin";  ///< recipe_options.cc lists the names
  Mode mode = Mode::Enforce;
  MegaHertz max_spread{500};                       ///< eco-route: delta, see policy/routing/eco_route.h
  std::string beyond_spread = "lowest-resulting";  ///< eco-route: lowest-resulting | lowest-current
  std::string borders = "clocks";                  ///< eco-route: clocks | tiles, see policy/routing/eco_route.h
  bool spare_overloaded = true;      ///< eco-route: none to an instance beyond its objective while another is within
  double overload_margin = 0.2;      ///< eco-route: share of slo.itl kept in reserve there
  std::int32_t tile_requests = 128;  ///< tile-aware: requests in a tile
};

struct QueueingOptions {
  std::string policy = "fcfs";  ///< fcfs
  Mode mode = Mode::Enforce;
};

struct AdmissionOptions {
  std::string policy = "always";  ///< always | bounded | throttllem | retail
  Mode mode = Mode::Enforce;
  std::int64_t max_in_flight_per_instance = 1024;  ///< bounded: beyond, requests are held
  std::int64_t max_held = 1024;                    ///< bounded: beyond, requests are rejected
  double margin = 0.0;                             ///< throttllem: share of the SLO kept in reserve
  double length_inflation = 0.0;                   ///< throttllem: predicted lengths are taken this share longer
  std::int32_t grace_iterations = 4;               ///< throttllem: a request may outlive its prediction by so many
  std::string overrun = "limit";                   ///< throttllem: limit | residual
  bool count_prefill = false;                      ///< throttllem: prompts count against running requests' deadlines
};

/// What is believed about step times, and how it is kept true.
struct PredictorOptions {
  std::string form = "linear";      ///< recipe_options.cc lists the names
  bool online = false;              ///< learn on from served steps (predict/online)
  bool refit = true;                ///< online: false = measure only
  std::int32_t refit_every = 1000;  ///< online: new samples between two refits
  std::int32_t ring = 2000;         ///< online: newest samples kept
  std::int32_t window = 200;        ///< online: newest samples that judge a model
  Span refit_delay = Span::s(1);    ///< online, simulator: how long a refit takes
  double profile_scale = 1.0;       ///< the offline profile's durations are multiplied by this
  double sample_noise = 0.0;        ///< simulator: measured durations scatter by this share, offline and served
};

/// What is believed about how long a request's answer will be.
struct LengthOptions {
  std::string source = "none";  ///< none | oracle | classes | learned
  double error_p95 = 0.0;       ///< oracle: 95 % of predictions are off by at most this share
  double quantile = 0.5;        ///< classes, learned: share of answers that are to be no longer than predicted
  bool fall_back = true;        ///< a constant answers while it predicts no worse
};

/// How many instances of which [[fleet]] entry run.
struct ScalingOptions {
  std::string policy = "none";  ///< none | smallest-engine
  Mode mode = Mode::Enforce;
  Span period = Span::s(10);
  double margin = 0.0;        ///< smallest-engine: share of each maximum load kept free
  std::optional<Span> grace;  ///< smallest-engine: none = the spawn time
};

struct Recipe {
  std::string name;
  std::string description;
  std::string file;
  PredictorOptions predictor;          ///< what is believed of step times
  std::string predictor_file;          ///< belief measured on a real engine; empty: profile the simulated one
  FrequencyOptions prefill_frequency;  ///< prefill instances
  FrequencyOptions decode_frequency;   ///< decode and colocated instances
  RoutingOptions route_prefill;
  RoutingOptions route_decode;
  QueueingOptions queueing;
  AdmissionOptions admission;
  LengthOptions length;
  ScalingOptions scaling;
};

}  // namespace wattle::config
