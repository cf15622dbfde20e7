#include "systems/compose.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/beliefs.h"
#include "policy/admission/always.h"
#include "policy/admission/bounded.h"
#include "policy/frequency/eco_freq.h"
#include "policy/frequency/idle_parking.h"
#include "policy/frequency/static_clock.h"
#include "policy/queueing/fcfs.h"
#include "policy/retail/retail.h"
#include "policy/routing/eco_route.h"
#include "policy/routing/least_loaded.h"
#include "policy/routing/power_of_two.h"
#include "policy/routing/random.h"
#include "policy/routing/round_robin.h"
#include "policy/routing/tile_aware.h"
#include "policy/routing/weighted_round_robin.h"
#include "policy/scaling/smallest_engine.h"
#include "policy/throttllem/throttllem.h"

namespace wattle::systems {

namespace {

using policy::FrequencyPolicy;

template <typename Policy, typename... Arguments>
struct Named {
  std::string_view name;
  Result<std::shared_ptr<Policy>> (*make)(Arguments... arguments);
};

template <typename Entry, std::size_t N>
Result<const Entry*> find(const std::array<Entry, N>& known, std::string_view name, const std::string& where) {
  const auto found = std::ranges::find(known, name, &Entry::name);
  if (found != known.end()) return &*found;
  std::vector<std::string_view> names;
  for (const Entry& entry : known) names.push_back(entry.name);
  return bad_input(where, fmt::format("unknown policy '{}'; known: {}", name, fmt::join(names, ", ")));
}

/// Where a key of the recipe stands, for messages.
std::string place(const config::Recipe& recipe, std::string_view key) {
  return recipe.file.empty() ? std::string(key) : fmt::format("{}: {}", recipe.file, key);
}

/// A share of the objectives kept in reserve. `where`: of the key.
Result<void> check_margin(double margin, const std::string& where) {
  if (margin >= 0.0 && margin < 1.0) return {};
  return bad_input(where, "a share of the SLO: at least 0, below 1");
}

// --- routing, queueing, admission ---

struct RoutingRequest {
  const config::Recipe& recipe;
  const config::RoutingOptions& options;
  std::string_view leg;  ///< of the keys: "prefill" or "decode"
};

std::string place(const RoutingRequest& request, std::string_view key) {
  return place(request.recipe, fmt::format("routing.{}.{}", request.leg, key));
}

template <typename Policy>
Result<std::shared_ptr<policy::RoutingPolicy>> plain_routing(const RoutingRequest&) {
  return std::make_shared<Policy>();
}

std::vector<ClockSetting> settings(const std::vector<MegaHertz>& clocks) { return {clocks.begin(), clocks.end()}; }

Result<std::shared_ptr<policy::RoutingPolicy>> make_eco_route(const RoutingRequest& request) {
  const auto& o = request.options;
  if (request.leg != "decode") {
    return bad_input(place(request, "policy"),
                     "eco-route weighs decode batches; use it for routing.decode and, say, round-robin here");
  }
  policy::EcoRouteOptions made;
  made.max_spread = o.max_spread;
  made.spare_overloaded = o.spare_overloaded;
  made.overload_margin = o.overload_margin;
  if (o.beyond_spread == "lowest-current") {
    made.beyond_spread = policy::BeyondSpread::LowestCurrent;
  } else if (o.beyond_spread != "lowest-resulting") {
    return bad_input(place(request, "beyond_spread"),
                     fmt::format("'{}' is neither lowest-resulting nor lowest-current", o.beyond_spread));
  }
  if (o.borders == "tiles") {
    made.borders = policy::Borders::Tiles;
  } else if (o.borders != "clocks") {
    return bad_input(place(request, "borders"), fmt::format("'{}' is neither clocks nor tiles", o.borders));
  }
  // A rule where the instances' clocks are eco-freq's to command; none where they stay as they are.
  policy::EcoRouteClocks clocks;
  const auto& f = request.recipe.decode_frequency;
  if (f.policy == "eco-freq" && f.mode == Mode::Enforce) clocks = {settings(f.clocks), f.margin};
  return std::make_shared<policy::EcoRoute>(made, std::move(clocks));
}

Result<std::shared_ptr<policy::RoutingPolicy>> make_tile_aware(const RoutingRequest& request) {
  if (request.options.tile_requests < 1) return bad_input(place(request, "tile_requests"), "at least 1");
  return std::make_shared<policy::TileAware>(request.options.tile_requests);
}

using NamedRouting = Named<policy::RoutingPolicy, const RoutingRequest&>;
constexpr auto kRoutings = std::to_array<NamedRouting>({
    {"round-robin", plain_routing<policy::RoundRobin>},
    {"least-loaded", plain_routing<policy::LeastLoaded>},
    {"power-of-two", plain_routing<policy::PowerOfTwo>},
    {"random", plain_routing<policy::Random>},
    {"weighted-round-robin", plain_routing<policy::WeightedRoundRobin>},
    {"eco-route", make_eco_route},
    {"tile-aware", make_tile_aware},
});

using NamedQueueing = Named<policy::QueuePolicy>;
constexpr auto kQueueings = std::to_array<NamedQueueing>({
    {"fcfs", []() -> Result<std::shared_ptr<policy::QueuePolicy>> { return std::make_shared<policy::Fcfs>(); }},
});

struct AdmissionRequest {
  const config::Recipe& recipe;
  const config::AdmissionOptions& options;
  std::shared_ptr<const LengthModel> length;
};

Result<std::shared_ptr<policy::AdmissionPolicy>> make_throttllem(const AdmissionRequest& request) {
  const auto& o = request.options;
  if (const auto ok = check_margin(o.margin, place(request.recipe, "admission.margin")); !ok)
    return std::unexpected(ok.error());
  policy::ThrottllemOptions made;
  made.margin = o.margin;
  made.inflation = o.length_inflation;
  made.grace = o.grace_iterations;
  made.count_prefill = o.count_prefill;
  if (o.overrun == "residual") made.outlived = policy::Outlived::Residual;
  const auto& f = request.recipe.decode_frequency;
  policy::ThrottllemClockOptions clock;
  clock.clocks = settings(f.clocks);
  clock.lowest_clock = f.lowest_clock;
  if (f.policy == "throttllem") {
    if (const auto ok = check_margin(f.margin, place(request.recipe, "frequency.decode.margin")); !ok)
      return std::unexpected(ok.error());
    clock.on_leave = f.on_leave;
    clock.max_while_held = f.max_while_held;
    clock.margin = f.margin;
    clock.park_idle = f.park_idle;
    if (f.idle_clock != MegaHertz{0}) clock.idle_clock = f.idle_clock;
  }
  return std::make_shared<policy::Throttllem>(made, std::move(clock), request.length);
}

Result<std::shared_ptr<policy::AdmissionPolicy>> make_retail(const AdmissionRequest& request) {
  const auto& o = request.options;
  if (const auto ok = check_margin(o.margin, place(request.recipe, "admission.margin")); !ok)
    return std::unexpected(ok.error());
  const auto& f = request.recipe.decode_frequency;
  return std::make_shared<policy::Retail>(policy::RetailOptions{o.margin, o.length_inflation},
                                          policy::RetailClockOptions{settings(f.clocks), f.lowest_clock});
}

using NamedAdmission = Named<policy::AdmissionPolicy, const AdmissionRequest&>;
constexpr auto kAdmissions = std::to_array<NamedAdmission>({
    {"always",
     [](const AdmissionRequest&) -> Result<std::shared_ptr<policy::AdmissionPolicy>> {
       return std::make_shared<policy::AlwaysAdmit>();
     }},
    {"bounded",
     [](const AdmissionRequest& request) -> Result<std::shared_ptr<policy::AdmissionPolicy>> {
       const auto& o = request.options;
       return std::make_shared<policy::BoundedAdmission>(
           policy::BoundedAdmissionOptions{o.max_in_flight_per_instance, o.max_held});
     }},
    {"throttllem", make_throttllem},
    {"retail", make_retail},
});

template <typename Policy, typename Known, typename... Arguments>
Result<void> fill(control::Slot<Policy>& slot, const Known& known, std::string_view name, Mode mode,
                  const std::string& where, const Arguments&... arguments) {
  auto entry = find(known, name, where);
  if (!entry) return std::unexpected(entry.error());
  auto made = (*entry)->make(arguments...);
  if (!made) return std::unexpected(made.error());
  slot.policy = std::move(*made);
  slot.mode = mode;
  return {};
}

// --- frequency ---

struct FrequencyRequest {
  const config::FrequencyOptions& options;
  const InstanceSpec& spec;
  std::function<std::string(std::string_view)> where;  ///< of a key of these options
  const std::shared_ptr<policy::AdmissionPolicy>& admission;
};

/// A clock of the recipe on this GPU; 0 means `otherwise`.
Result<MegaHertz> clock_on(const FrequencyRequest& request, std::string_view key, MegaHertz clock,
                           MegaHertz otherwise) {
  if (clock == MegaHertz{0}) return otherwise;
  const GpuSpec& gpu = request.spec.gpu;
  if (clock < gpu.clock_min || clock > gpu.clock_max) {
    return bad_input(request.where(key), fmt::format("{} MHz is outside what {} can lock, {} to {} MHz", clock.value(),
                                                     gpu.name, gpu.clock_min.value(), gpu.clock_max.value()));
  }
  return clock;
}

Result<std::shared_ptr<FrequencyPolicy>> make_static(const FrequencyRequest& request) {
  const auto& o = request.options;
  const auto clock = clock_on(request, "clock_mhz", o.clock, request.spec.gpu.clock_max);
  if (!clock) return std::unexpected(clock.error());
  const auto parking = clock_on(request, "idle_clock_mhz", o.idle_clock, request.spec.gpu.clock_min);
  if (!parking) return std::unexpected(parking.error());
  return std::make_shared<policy::StaticClock>(*clock, o.park_idle ? std::optional(*parking) : std::nullopt);
}

Result<std::shared_ptr<FrequencyPolicy>> make_idle_parking(const FrequencyRequest& request) {
  const auto busy = clock_on(request, "clock_mhz", request.options.clock, request.spec.gpu.clock_max);
  if (!busy) return std::unexpected(busy.error());
  const auto parking = clock_on(request, "idle_clock_mhz", request.options.idle_clock, request.spec.gpu.clock_min);
  if (!parking) return std::unexpected(parking.error());
  return std::make_shared<policy::IdleParking>(*busy, *parking);
}

Result<std::shared_ptr<FrequencyPolicy>> make_eco_freq(const FrequencyRequest& request) {
  const auto& o = request.options;
  if (o.clocks.empty() || std::ranges::adjacent_find(o.clocks, std::greater_equal{}) != o.clocks.end()) {
    return bad_input(request.where("clocks_mhz"), "eco-freq needs clocks to choose from, ascending");
  }
  for (const MegaHertz clock : o.clocks) {
    const auto valid = clock_on(request, "clocks_mhz", clock, MegaHertz{0});
    if (!valid) return std::unexpected(valid.error());
    if (*valid == MegaHertz{0}) return bad_input(request.where("clocks_mhz"), "0 is no clock");
  }
  if (const auto ok = check_margin(o.margin, request.where("margin")); !ok) return std::unexpected(ok.error());
  if (request.spec.role != Role::Decode && !request.spec.slo.ttft) {
    return bad_input(request.where("policy"), "eco-freq bounds prefill steps by the objective slo.ttft; state it");
  }
  if (request.spec.role != Role::Prefill && !request.spec.slo.itl) {
    return bad_input(request.where("policy"), "eco-freq bounds decode steps by the objective slo.itl; state it");
  }
  const auto parking = clock_on(request, "idle_clock_mhz", o.idle_clock, request.spec.gpu.clock_min);
  if (!parking) return std::unexpected(parking.error());
  policy::EcoFreqOptions made;
  made.clocks = settings(o.clocks);
  made.park_idle = o.park_idle;
  made.idle_clock = *parking;
  made.margin = o.margin;
  made.dwell = o.dwell;
  made.window = o.window;
  return std::make_shared<policy::EcoFreq>(made, request.spec);
}

/// The policy that admits chooses clocks, too.
template <typename Policy>
Result<std::shared_ptr<FrequencyPolicy>> share_admission(const FrequencyRequest& request) {
  if (auto both = std::dynamic_pointer_cast<Policy>(request.admission); both) return both;
  return bad_input(request.where("policy"),
                   fmt::format("{0}'s clock follows {0}'s admission; set admission.policy = \"{0}\", or choose another",
                               request.options.policy));
}

struct NamedFrequency {
  std::string_view name;
  Result<std::shared_ptr<FrequencyPolicy>> (*make)(const FrequencyRequest& request);
  bool needs_latency;
};
constexpr auto kFrequencies = std::to_array<NamedFrequency>({
    {"static", make_static, false},
    {"idle-parking", make_idle_parking, false},
    {"eco-freq", make_eco_freq, true},
    {"throttllem", share_admission<policy::Throttllem>, true},
    {"retail", share_admission<policy::Retail>, false},
});

bool admits_by_forecast(const config::Recipe& recipe) {
  return recipe.admission.policy == "throttllem" && recipe.admission.mode != Mode::Off;
}

bool admits_by_regression(const config::Recipe& recipe) {
  return recipe.admission.policy == "retail" && recipe.admission.mode != Mode::Off;
}

}  // namespace

Result<std::shared_ptr<predict::LengthBelief>> make_length_belief(const config::Recipe& recipe) {
  const auto& o = recipe.length;
  if (o.source == "none") return nullptr;
  if (!(o.quantile > 0.0 && o.quantile < 1.0)) {
    return bad_input(place(recipe, "length.quantile"), "a share of requests: above 0, below 1");
  }
  using Source = predict::LengthBeliefOptions::Source;
  return std::make_shared<predict::LengthBelief>(
      predict::LengthBeliefOptions{o.source == "learned" ? Source::Learned : Source::Hint, o.quantile, o.fall_back});
}

std::unique_ptr<predict::LengthHint> make_length_hint(const config::Recipe& recipe, std::uint64_t seed) {
  const auto& o = recipe.length;
  if (o.source == "oracle") return std::make_unique<predict::LengthOracle>(o.error_p95, seed);
  if (o.source == "classes") return std::make_unique<predict::LengthClasses>(o.quantile, seed);
  return nullptr;
}

Result<void> check_instance(const config::Recipe& recipe, const InstanceSpec& spec) {
  if (!admits_by_forecast(recipe) && !admits_by_regression(recipe)) return {};
  const auto& name = recipe.admission.policy;
  const GpuSpec& gpu = spec.gpu;
  if (spec.role != Role::Colocated) {
    return bad_input(place(recipe, "admission.policy"),
                     name + " looks at instances that prefill and decode; the scenario has others");
  }
  if (admits_by_forecast(recipe) && !spec.slo.tbt && !spec.slo.e2e) {
    return bad_input(place(recipe, "admission.policy"),
                     "throttllem bounds slo.tbt_ms (mean iteration) and slo.e2e_ms (each request); state one of them");
  }
  if (admits_by_regression(recipe) && !spec.slo.e2e) {
    return bad_input(place(recipe, "admission.policy"), "retail bounds slo.e2e_ms of each request; state it");
  }
  const MegaHertz lowest = recipe.decode_frequency.lowest_clock;
  if (lowest != MegaHertz{0} && (lowest < gpu.clock_min || lowest > gpu.clock_max)) {
    return bad_input(place(recipe, "frequency.decode.lowest_clock_mhz"),
                     fmt::format("{} can lock {} to {} MHz; 0 is its lowest", gpu.name, gpu.clock_min.value(),
                                 gpu.clock_max.value()));
  }
  const auto clocks = clocks_on(recipe.decode_frequency, gpu);
  if (std::ranges::adjacent_find(clocks, std::greater_equal{}) != clocks.end() || clocks.front() < gpu.clock_min ||
      clocks.back() > gpu.clock_max) {
    return bad_input(place(recipe, "frequency.decode.clocks_mhz"),
                     fmt::format("{} needs ascending clocks within what {} can lock, {} to {} MHz", name, gpu.name,
                                 gpu.clock_min.value(), gpu.clock_max.value()));
  }
  return {};
}

std::vector<MegaHertz> clocks_on(const config::FrequencyOptions& options, const GpuSpec& gpu) {
  return options.clocks.empty() ? supported_clocks(gpu, options.lowest_clock) : options.clocks;
}

Result<control::DispatchPolicies> make_dispatch_policies(const config::Recipe& recipe) {
  control::DispatchPolicies made;
  auto length = make_length_belief(recipe);
  if (!length) return std::unexpected(length.error());
  made.length = std::move(*length);
  auto ok = fill(made.admission, kAdmissions, recipe.admission.policy, recipe.admission.mode,
                 place(recipe, "admission.policy"), AdmissionRequest{recipe, recipe.admission, made.length});
  if (ok) {
    ok =
        fill(made.queueing, kQueueings, recipe.queueing.policy, recipe.queueing.mode, place(recipe, "queueing.policy"));
  }
  if (ok) {
    ok = fill(made.route_prefill, kRoutings, recipe.route_prefill.policy, recipe.route_prefill.mode,
              place(recipe, "routing.prefill.policy"), RoutingRequest{recipe, recipe.route_prefill, "prefill"});
  }
  if (ok) {
    ok = fill(made.route_decode, kRoutings, recipe.route_decode.policy, recipe.route_decode.mode,
              place(recipe, "routing.decode.policy"), RoutingRequest{recipe, recipe.route_decode, "decode"});
  }
  if (!ok) return std::unexpected(ok.error());
  return made;
}

const config::FrequencyOptions& frequency_options(const config::Recipe& recipe, Role role) {
  return role == Role::Prefill ? recipe.prefill_frequency : recipe.decode_frequency;
}

Result<control::Slot<FrequencyPolicy>> make_clock_policy(const config::Recipe& recipe, const InstanceSpec& spec,
                                                         const std::shared_ptr<policy::AdmissionPolicy>& admission) {
  if (auto ok = check_instance(recipe, spec); !ok) return std::unexpected(ok.error());
  const auto& options = frequency_options(recipe, spec.role);
  const std::string_view phase = spec.role == Role::Prefill ? "prefill" : "decode";
  const auto where = [&](std::string_view key) { return place(recipe, fmt::format("frequency.{}.{}", phase, key)); };
  const auto entry = find(kFrequencies, options.policy, where("policy"));
  if (!entry) return std::unexpected(entry.error());
  auto made = (*entry)->make({options, spec, where, admission});
  if (!made) return std::unexpected(made.error());
  return control::Slot<FrequencyPolicy>{std::move(*made), options.mode};
}

bool clock_shares_admission(const config::Recipe& recipe, Role role) {
  const auto& policy = frequency_options(recipe, role).policy;
  return policy == "throttllem" || policy == "retail";
}

Result<std::shared_ptr<policy::ScalingPolicy>> make_scaling_policy(const config::Recipe& recipe,
                                                                   std::vector<policy::Shape> shapes) {
  const auto& o = recipe.scaling;
  if (o.policy == "none") return nullptr;
  if (o.policy != "smallest-engine") {
    return bad_input(place(recipe, "scaling.policy"),
                     fmt::format("unknown policy '{}'; known: none, smallest-engine", o.policy));
  }
  for (std::size_t i = 1; i < shapes.size(); ++i) {
    if (shapes[i - 1].gpus < shapes[i].gpus && shapes[i - 1].max_load_per_s < shapes[i].max_load_per_s) continue;
    return bad_input(
        place(recipe, "scaling.policy"),
        fmt::format("smallest-engine takes [[fleet]] entries in order of size; {} GPUs with {:.3g} "
                    "requests/s come before {} GPUs with {:.3g}",
                    shapes[i - 1].gpus, shapes[i - 1].max_load_per_s, shapes[i].gpus, shapes[i].max_load_per_s));
  }
  return std::make_shared<policy::SmallestEngine>(policy::SmallestEngineOptions{std::move(shapes), o.margin, o.grace});
}

bool needs_step_reports(const config::Recipe& recipe) {
  return admits_by_forecast(recipe) || admits_by_regression(recipe);
}

bool needs_request_latency(const config::Recipe& recipe) { return admits_by_regression(recipe); }

std::vector<MegaHertz> clocks_to_predict(const config::Recipe& recipe, const GpuSpec& gpu) {
  if (admits_by_forecast(recipe)) return clocks_on(recipe.decode_frequency, gpu);
  return calibrate::clocks_to_profile(recipe);
}

bool needs_latency(const config::Recipe& recipe, Role role) {
  if (admits_by_forecast(recipe)) return true;
  const auto& options = frequency_options(recipe, role);
  const auto found = std::ranges::find(kFrequencies, options.policy, &NamedFrequency::name);
  return found != kFrequencies.end() && found->needs_latency && options.mode != Mode::Off;
}

Span overrun_slack(const config::Recipe& recipe, Role role) {
  const auto& options = frequency_options(recipe, role);
  return options.policy == "eco-freq" && options.overrun > Span() ? options.overrun : Span::max();
}

}  // namespace wattle::systems
