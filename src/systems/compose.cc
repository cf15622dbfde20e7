#include "systems/compose.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/admission/always.h"
#include "policy/admission/bounded.h"
#include "policy/frequency/eco_freq.h"
#include "policy/frequency/idle_parking.h"
#include "policy/frequency/static_clock.h"
#include "policy/queueing/fcfs.h"
#include "policy/routing/eco_route.h"
#include "policy/routing/least_loaded.h"
#include "policy/routing/power_of_two.h"
#include "policy/routing/random.h"
#include "policy/routing/round_robin.h"
#include "policy/routing/tile_aware.h"
#include "policy/routing/weighted_round_robin.h"
#include "policy/scaling/smallest_engine.h"

namespace wattle::systems {

namespace {

using policy::FrequencyPolicy;

template <typename Policy, typename... Arguments>
struct Named {
  std::string_view name;
  Result<std::unique_ptr<Policy>> (*make)(Arguments... arguments);
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
  std::span<const RoutedInstance> fleet;
};

std::string place(const RoutingRequest& request, std::string_view key) {
  return place(request.recipe, fmt::format("routing.{}.{}", request.leg, key));
}

template <typename Policy>
Result<std::unique_ptr<policy::RoutingPolicy>> plain_routing(const RoutingRequest&) {
  return std::make_unique<Policy>();
}

/// A rule where the instance's clock is eco-freq's to command; none where it stays as it is.
policy::EcoRouteInstance what_if(const RoutingRequest& request, const RoutedInstance& instance) {
  const config::Recipe& recipe = request.recipe;
  const auto& o = frequency_options(recipe, instance.role);
  if (instance.role == Role::Prefill) return {};  // no candidate for decodes
  if (o.policy != "eco-freq" || o.mode != Mode::Enforce || o.clocks.empty()) return {};
  policy::EcoRouteInstance made{policy::make_clock_rule(o.clocks, instance.slo, o.margin), instance.beliefs.latency};
  made.itl_limit = policy::make_clock_rule(o.clocks, instance.slo, request.options.overload_margin).itl;
  return made;
}

Result<std::unique_ptr<policy::RoutingPolicy>> make_eco_route(const RoutingRequest& request) {
  const auto& o = request.options;
  if (request.leg != "decode") {
    return bad_input(place(request, "policy"),
                     "eco-route weighs decode batches; use it for routing.decode and, say, round-robin here");
  }
  if (request.fleet.empty()) {
    return bad_input(place(request, "policy"), "eco-route asks each instance's predictor, and here there are none");
  }
  policy::EcoRouteOptions made;
  made.max_spread = o.max_spread;
  made.spare_overloaded = o.spare_overloaded;
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
  std::map<const LatencyModel*, std::vector<std::int32_t>> tiles;  // instances alike share a belief
  for (const auto& instance : request.fleet) {
    auto asked = what_if(request, instance);
    if (made.borders == policy::Borders::Tiles && asked.latency != nullptr) {
      const auto [known, fresh] = tiles.try_emplace(asked.latency);
      if (fresh) known->second = policy::tile_ends(*asked.latency, asked.rule.clocks.front());
      asked.tile_ends = known->second;
    }
    made.instances.push_back(std::move(asked));
  }
  return std::make_unique<policy::EcoRoute>(std::move(made));
}

Result<std::unique_ptr<policy::RoutingPolicy>> make_tile_aware(const RoutingRequest& request) {
  if (request.options.tile_requests < 1) return bad_input(place(request, "tile_requests"), "at least 1");
  return std::make_unique<policy::TileAware>(request.options.tile_requests);
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
    {"fcfs", []() -> Result<std::unique_ptr<policy::QueuePolicy>> { return std::make_unique<policy::Fcfs>(); }},
});

struct AdmissionRequest {
  const config::Recipe& recipe;
  const config::AdmissionOptions& options;
  std::shared_ptr<policy::ThrottllemFleet> throttllem;
  std::shared_ptr<policy::RetailFleet> retail;
};

Result<std::unique_ptr<policy::AdmissionPolicy>> make_throttllem_admission(const AdmissionRequest& request) {
  if (!request.throttllem) {
    return bad_input(place(request.recipe, "admission.policy"),
                     "throttllem's admission and clocks share one projection, and here there is none to share");
  }
  return std::make_unique<policy::ThrottllemAdmission>(request.throttllem);
}

Result<std::unique_ptr<policy::AdmissionPolicy>> make_retail_admission(const AdmissionRequest& request) {
  if (!request.retail) {
    return bad_input(place(request.recipe, "admission.policy"),
                     "retail's admission tells its clocks of the queue, and here there is none to tell");
  }
  return std::make_unique<policy::RetailAdmission>(request.retail);
}

using NamedAdmission = Named<policy::AdmissionPolicy, const AdmissionRequest&>;
constexpr auto kAdmissions = std::to_array<NamedAdmission>({
    {"always",
     [](const AdmissionRequest&) -> Result<std::unique_ptr<policy::AdmissionPolicy>> {
       return std::make_unique<policy::AlwaysAdmit>();
     }},
    {"bounded",
     [](const AdmissionRequest& request) -> Result<std::unique_ptr<policy::AdmissionPolicy>> {
       const auto& o = request.options;
       return std::make_unique<policy::BoundedAdmission>(
           policy::BoundedAdmissionOptions{o.max_in_flight_per_instance, o.max_held});
     }},
    {"throttllem", make_throttllem_admission},
    {"retail", make_retail_admission},
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
  Role role;
  const GpuSpec& gpu;
  const Slo& slo;
  std::function<std::string(std::string_view)> where;  ///< of a key of these options
  std::shared_ptr<policy::ThrottllemFleet> throttllem;
  InstanceId id = kNoInstance;
  std::shared_ptr<policy::RetailFleet> retail;
};

/// A clock of the recipe on this GPU; 0 means `otherwise`.
Result<MegaHertz> clock_on(const FrequencyRequest& request, std::string_view key, MegaHertz clock,
                           MegaHertz otherwise) {
  if (clock == MegaHertz{0}) return otherwise;
  const GpuSpec& gpu = request.gpu;
  if (clock < gpu.clock_min || clock > gpu.clock_max) {
    return bad_input(request.where(key), fmt::format("{} MHz is outside what {} can lock, {} to {} MHz", clock.value(),
                                                     gpu.name, gpu.clock_min.value(), gpu.clock_max.value()));
  }
  return clock;
}

Result<std::unique_ptr<FrequencyPolicy>> make_static(const FrequencyRequest& request) {
  const auto& o = request.options;
  const auto clock = clock_on(request, "clock_mhz", o.clock, request.gpu.clock_max);
  if (!clock) return std::unexpected(clock.error());
  const auto parking = clock_on(request, "idle_clock_mhz", o.idle_clock, request.gpu.clock_min);
  if (!parking) return std::unexpected(parking.error());
  return std::make_unique<policy::StaticClock>(*clock, o.park_idle ? std::optional(*parking) : std::nullopt);
}

Result<std::unique_ptr<FrequencyPolicy>> make_idle_parking(const FrequencyRequest& request) {
  const auto busy = clock_on(request, "clock_mhz", request.options.clock, request.gpu.clock_max);
  if (!busy) return std::unexpected(busy.error());
  const auto parking = clock_on(request, "idle_clock_mhz", request.options.idle_clock, request.gpu.clock_min);
  if (!parking) return std::unexpected(parking.error());
  return std::make_unique<policy::IdleParking>(*busy, *parking);
}

Result<std::unique_ptr<FrequencyPolicy>> make_eco_freq(const FrequencyRequest& request) {
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
  if (request.role != Role::Decode && !request.slo.ttft) {
    return bad_input(request.where("policy"), "eco-freq bounds prefill steps by the objective slo.ttft; state it");
  }
  if (request.role != Role::Prefill && !request.slo.itl) {
    return bad_input(request.where("policy"), "eco-freq bounds decode steps by the objective slo.itl; state it");
  }
  const auto parking = clock_on(request, "idle_clock_mhz", o.idle_clock, request.gpu.clock_min);
  if (!parking) return std::unexpected(parking.error());
  policy::EcoFreqOptions made;
  made.clocks = o.clocks;
  made.idle_clock = o.park_idle ? *parking : o.clocks.front();
  made.slo = request.slo;
  made.margin = o.margin;
  made.dwell = o.dwell;
  made.window = o.window;
  return std::make_unique<policy::EcoFreq>(std::move(made));
}

Result<std::unique_ptr<FrequencyPolicy>> make_throttllem_clock(const FrequencyRequest& request) {
  if (!request.throttllem || request.throttllem->desk(request.id) == nullptr) {
    return bad_input(
        request.where("policy"),
        "throttllem's clock follows throttllem's admission and a colocated instance; set admission.policy = "
        "\"throttllem\", or choose another");
  }
  const auto parking = clock_on(request, "idle_clock_mhz", request.options.idle_clock, request.gpu.clock_min);
  if (!parking) return std::unexpected(parking.error());
  policy::ThrottllemClockOptions made;
  made.on_leave = request.options.on_leave;
  made.max_while_held = request.options.max_while_held;
  made.margin = request.options.margin;
  if (const auto ok = check_margin(made.margin, request.where("margin")); !ok) return std::unexpected(ok.error());
  if (request.options.park_idle) made.idle_clock = *parking;
  return std::make_unique<policy::ThrottllemClock>(request.throttllem, request.id, made);
}

Result<std::unique_ptr<FrequencyPolicy>> make_retail_clock(const FrequencyRequest& request) {
  if (!request.retail || request.retail->desk(request.id) == nullptr) {
    return bad_input(request.where("policy"),
                     "retail's clock follows retail's admission and a colocated instance; set admission.policy = "
                     "\"retail\", or choose another");
  }
  return std::make_unique<policy::RetailClock>(request.retail, request.id);
}

struct NamedFrequency {
  std::string_view name;
  Result<std::unique_ptr<FrequencyPolicy>> (*make)(const FrequencyRequest& request);
  bool needs_latency;
};
constexpr auto kFrequencies = std::to_array<NamedFrequency>({
    {"static", make_static, false},
    {"idle-parking", make_idle_parking, false},
    {"eco-freq", make_eco_freq, true},
    {"throttllem", make_throttllem_clock, true},
    {"retail", make_retail_clock, false},
});

bool admits_by_forecast(const config::Recipe& recipe) {
  return recipe.admission.policy == "throttllem" && recipe.admission.mode != Mode::Off;
}

/// What a clock that shares a desk with admission chooses from. Errors: another role than colocated; clocks that do not
/// ascend or that the GPU cannot lock.
Result<std::vector<MegaHertz>> desk_clocks(const config::Recipe& recipe, Role role, const GpuSpec& gpu) {
  const auto& name = recipe.admission.policy;
  if (role != Role::Colocated) {
    return bad_input(place(recipe, "admission.policy"),
                     name + " looks at instances that prefill and decode; the scenario has others");
  }
  const MegaHertz lowest = recipe.decode_frequency.lowest_clock;
  if (lowest != MegaHertz{0} && (lowest < gpu.clock_min || lowest > gpu.clock_max)) {
    return bad_input(place(recipe, "frequency.decode.lowest_clock_mhz"),
                     fmt::format("{} can lock {} to {} MHz; 0 is its lowest", gpu.name, gpu.clock_min.value(),
                                 gpu.clock_max.value()));
  }
  auto clocks = clocks_on(recipe.decode_frequency, gpu);
  if (std::ranges::adjacent_find(clocks, std::greater_equal{}) != clocks.end() || clocks.front() < gpu.clock_min ||
      clocks.back() > gpu.clock_max) {
    return bad_input(place(recipe, "frequency.decode.clocks_mhz"),
                     fmt::format("{} needs ascending clocks within what {} can lock, {} to {} MHz", name, gpu.name,
                                 gpu.clock_min.value(), gpu.clock_max.value()));
  }
  return clocks;
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

Result<std::shared_ptr<policy::ThrottllemFleet>> make_throttllem(const config::Recipe& recipe, const Slo& slo,
                                                                 std::int32_t block_size,
                                                                 std::shared_ptr<const LengthModel> length) {
  if (!admits_by_forecast(recipe)) return nullptr;
  if (!slo.tbt && !slo.e2e) {
    return bad_input(place(recipe, "admission.policy"),
                     "throttllem bounds slo.tbt_ms (mean iteration) and slo.e2e_ms (each request); state one of them");
  }
  const auto& o = recipe.admission;
  if (const auto ok = check_margin(o.margin, place(recipe, "admission.margin")); !ok)
    return std::unexpected(ok.error());
  policy::ThrottllemOptions made;
  made.slo = slo;
  made.margin = o.margin;
  made.inflation = o.length_inflation;
  made.grace = o.grace_iterations;
  made.block_size = block_size;
  made.count_prefill = o.count_prefill;
  if (o.overrun == "residual") made.residual = std::move(length);
  return std::make_shared<policy::ThrottllemFleet>(made);
}

Result<void> take_desk(const std::shared_ptr<policy::ThrottllemFleet>& fleet, const config::Recipe& recipe,
                       InstanceId id, Role role, const GpuSpec& gpu, const LatencyModel* latency) {
  if (!fleet) return {};
  auto clocks = desk_clocks(recipe, role, gpu);
  if (!clocks) return std::unexpected(clocks.error());
  fleet->add(id, std::move(*clocks), latency);
  return {};
}

Result<void> take_desk(const std::shared_ptr<policy::RetailFleet>& fleet, const config::Recipe& recipe, InstanceId id,
                       Role role, const GpuSpec& gpu, const policy::RetailModel& model) {
  if (!fleet) return {};
  auto clocks = desk_clocks(recipe, role, gpu);
  if (!clocks) return std::unexpected(clocks.error());
  fleet->add(id, model, std::move(*clocks));
  return {};
}

Result<std::shared_ptr<policy::RetailFleet>> make_retail(const config::Recipe& recipe, const Slo& slo) {
  if (recipe.admission.policy != "retail" || recipe.admission.mode == Mode::Off) return nullptr;
  if (!slo.e2e)
    return bad_input(place(recipe, "admission.policy"), "retail bounds slo.e2e_ms of each request; state it");
  const auto& o = recipe.admission;
  if (const auto ok = check_margin(o.margin, place(recipe, "admission.margin")); !ok)
    return std::unexpected(ok.error());
  return std::make_shared<policy::RetailFleet>(policy::RetailOptions{*slo.e2e, o.margin, o.length_inflation});
}

std::vector<MegaHertz> clocks_on(const config::FrequencyOptions& options, const GpuSpec& gpu) {
  if (!options.clocks.empty()) return options.clocks;
  std::vector<MegaHertz> clocks;
  // From the top, so that the highest is among them whatever the step.
  const auto lowest = std::min(gpu.clock_max, std::max(gpu.clock_min, options.lowest_clock)).value();
  for (std::int32_t mhz = gpu.clock_max.value(); mhz >= lowest; mhz -= gpu.clock_step.value()) {
    clocks.emplace_back(mhz);
  }
  std::ranges::reverse(clocks);
  return clocks;
}

Result<control::DispatchPolicies> make_dispatch_policies(const config::Recipe& recipe,
                                                         std::span<const RoutedInstance> fleet,
                                                         std::shared_ptr<policy::ThrottllemFleet> throttllem,
                                                         std::shared_ptr<policy::RetailFleet> retail) {
  control::DispatchPolicies made;
  auto ok = fill(made.admission, kAdmissions, recipe.admission.policy, recipe.admission.mode,
                 place(recipe, "admission.policy"),
                 AdmissionRequest{recipe, recipe.admission, std::move(throttllem), std::move(retail)});
  if (ok) {
    ok =
        fill(made.queueing, kQueueings, recipe.queueing.policy, recipe.queueing.mode, place(recipe, "queueing.policy"));
  }
  if (ok) {
    ok = fill(made.route_prefill, kRoutings, recipe.route_prefill.policy, recipe.route_prefill.mode,
              place(recipe, "routing.prefill.policy"), RoutingRequest{recipe, recipe.route_prefill, "prefill", fleet});
  }
  if (ok) {
    ok = fill(made.route_decode, kRoutings, recipe.route_decode.policy, recipe.route_decode.mode,
              place(recipe, "routing.decode.policy"), RoutingRequest{recipe, recipe.route_decode, "decode", fleet});
  }
  if (!ok) return std::unexpected(ok.error());
  return made;
}

const config::FrequencyOptions& frequency_options(const config::Recipe& recipe, Role role) {
  return role == Role::Prefill ? recipe.prefill_frequency : recipe.decode_frequency;
}

Result<std::unique_ptr<FrequencyPolicy>> make_frequency_policy(const config::Recipe& recipe, Role role,
                                                               const GpuSpec& gpu, const Slo& slo,
                                                               std::shared_ptr<policy::ThrottllemFleet> throttllem,
                                                               InstanceId id,
                                                               std::shared_ptr<policy::RetailFleet> retail) {
  const auto& options = frequency_options(recipe, role);
  const std::string_view phase = role == Role::Prefill ? "prefill" : "decode";
  const auto where = [&](std::string_view key) { return place(recipe, fmt::format("frequency.{}.{}", phase, key)); };
  const auto entry = find(kFrequencies, options.policy, where("policy"));
  if (!entry) return std::unexpected(entry.error());
  return (*entry)->make({options, role, gpu, slo, where, std::move(throttllem), id, std::move(retail)});
}

bool clock_shares_admission(const config::Recipe& recipe, Role role) {
  const auto& policy = frequency_options(recipe, role).policy;
  return policy == "throttllem" || policy == "retail";
}

Result<std::unique_ptr<policy::ScalingPolicy>> make_scaling_policy(const config::Recipe& recipe,
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
  return std::make_unique<policy::SmallestEngine>(policy::SmallestEngineOptions{std::move(shapes), o.margin, o.grace});
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
