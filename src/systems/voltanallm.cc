// VoltanaLLM: EcoFreq on each node, EcoRoute (or the published implementation's tile-aware) for the decode leg.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>

#include "policy/frequency/eco_freq.h"
#include "policy/routing/eco_route.h"
#include "policy/routing/tile_aware.h"
#include "systems/greenserve.h"
#include "systems/registry.h"
#include "systems/voltanallm.h"

namespace wattle::config {

template <>
struct Codec<policy::Borders> : NamedCodec<policy::Borders, Codec<policy::Borders>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, policy::Borders>>(
        {{"clocks", policy::Borders::Clocks}, {"tiles", policy::Borders::Tiles}});
  }
};

}  // namespace wattle::config

namespace wattle::systems {

namespace {

using config::option;
using policy::EcoFreqOptions;
using policy::EcoRouteOptions;

struct TileAwareOptions {
  std::int32_t tile_requests = 128;
};

std::vector<config::Option<EcoFreqOptions>> eco_freq_options() {
  using F = EcoFreqOptions;
  return {
      option("clocks_mhz", &F::clocks, "MHz", config::kClockBounds, "Clocks to choose from, in ascending order"),
      option("park_idle", &F::park_idle,
             "Lock idle_clock_mhz while the instance has no work. Off: the lowest of clocks_mhz"),
      option("idle_clock_mhz", &F::idle_clock, "MHz", config::kClockBounds,
             "Clock to lock while the instance has no work"),
      option("margin", &F::margin, "", {0, 0.95},
             "Share of slo.ttft_ms and slo.itl_ms (slo.tbt_ms if there is no ITL objective) kept in reserve. Reports "
             "use the objectives without it"),
      option("dwell_ms", &F::dwell, "ms", {0, 3'600'000},
             "Minimum time between raising the clock and lowering it again"),
      option("overrun_ms", &F::overrun, "ms", {0, 600'000},
             "The clock is raised immediately when a step takes this much longer than predicted. 0: never"),
      option("late_handovers", &F::late_handovers, "", {0, 0.5},
             "Prefill and decode apart: share of first tokens that may miss slo.ttft_ms because they wait for a step "
             "of the decode engine. Step times on both sides are limited to keep to it, based on the most recent first "
             "tokens. 0: these waits are ignored (paper)"),
      option("step_yield", &F::step_yield, "", {0, 1},
             "Speculative decoding on decode instances: when even the highest clock misses slo.itl_ms, a step may take "
             "longer by this share of the extra tokens (beyond one) that it yields per request, as reported by the "
             "engine. 0: no extension (paper)"),
      option("late_tokens", &F::late_tokens, "", {0, 0.5},
             "Colocated instances: share of token gaps (slo.itl_ms) and first tokens (slo.ttft_ms) that may be late to "
             "save energy, in addition to those late at the highest clock. 0: every step has to meet the objectives "
             "(paper)"),
      option("late_requests", &F::late_requests, "", {0, 0.5},
             "With late_tokens: share of requests that may miss their objectives, in addition to those that no "
             "instance can serve in time according to a load profile. While more do, late_tokens is reduced, then "
             "clocks are raised. 0: no such feedback"),
      option("newcomers", &F::newcomers,
             "With late_tokens: limit step times so that a request that arrives during a step still gets its first "
             "token in time. No effect if requests have different TTFT objectives"),
      option(
          "carries_load", &F::carries_load,
          "Prefill and decode instances do not use clocks at which their load would outgrow them: prompts would take "
          "longer than the time in which they arrive, or the batch would outgrow the KV cache, "
          "engine.max_num_seqs or the largest batch that the highest clock decodes within slo.itl_ms. Off: paper"),
      option("later_chunks", &F::later_chunks,
             "Chunked prefill: a step that computes part of a prompt gets only that part's share of the time left for "
             "the first token. Off: all of it (paper)"),
      option("raises_take_time", &F::raises_take_time,
             "A command given as a step begins applies only after a while (clock.call_ms + clock.transition_ms): "
             "predict steps accordingly. With late_tokens, clocks stay high enough for the next prompt, instead of for "
             "dwell_ms. Off: paper"),
      option("raises_in_vain", &F::raises_in_vain,
             "When no clock meets the objective, use the highest, even if a lower one is as fast, for example because "
             "the engine's host CPU is the bottleneck (paper). Off: the lowest that is as fast"),
      decision_window(),
  };
}

std::vector<config::Option<EcoRouteOptions>> eco_route_options() {
  using R = EcoRouteOptions;
  return {
      option("max_spread_mhz", &R::max_spread, "MHz", {0, 10'000},
             "Delta in the papers: maximum difference between the highest and lowest clock of the decode instances. A "
             "request that would exceed it is placed by beyond_spread"),
      beyond_spread(),
      option("borders", &R::borders,
             "What makes a placement costly. clocks: the request raises the instance's clock (paper); tiles: that, or "
             "it starts a new tile of the batch. Tiles are then filled one by one, and max_spread_mhz and "
             "beyond_spread have no effect"),
      option("spare_overloaded", &R::spare_overloaded,
             "Do not send requests to an instance that would miss slo.itl_ms even at its highest clock while another "
             "one would not. Off: paper"),
      option("overload_margin", &R::overload_margin, "share", {0, 0.99},
             "Share of slo.itl_ms kept in reserve by spare_overloaded, independent of eco-freq's margin"),
  };
}

std::pair<std::string, std::string> ascending(const EcoFreqOptions& o) {
  if (o.clocks.empty()) return {"clocks_mhz", R"(eco-freq needs clocks to choose from, as in ["sweet", "max"])"};
  // On any GPU; suits() looks at the instance's.
  const auto falls = [](const ClockSetting& a, const ClockSetting& b) {
    using Kind = ClockSetting::Kind;
    if (a.needs_sweet() && b.needs_sweet()) return a.value() >= b.value();
    return (a.kind() == b.kind() && a.value() >= b.value()) || a.kind() == Kind::Highest || b.kind() == Kind::Lowest;
  };
  if (std::ranges::adjacent_find(o.clocks, falls) != o.clocks.end()) {
    return {"clocks_mhz", "clocks_mhz must ascend, each clock once"};
  }
  return {};
}

Result<void> suits(const EcoFreqOptions& o, const Making& making) {
  const InstanceSpec& spec = *making.spec;
  const auto falls = [&](const ClockSetting& a, const ClockSetting& b) { return a.on(spec) > b.on(spec); };
  if (std::ranges::adjacent_find(o.clocks, falls) != o.clocks.end()) {
    std::vector<std::int32_t> there;
    for (const ClockSetting& clock : o.clocks) there.push_back(clock.on(spec).value());
    return making.refuse(
        "clocks_mhz", fmt::format("must ascend; on {} they are {} MHz: state clocks of that GPU, or shares of its own "
                                  "range as in [\"sweet\", \"sweet+50%\", \"max\"]",
                                  spec.gpu.name, fmt::join(there, ", ")));
  }
  if (spec.role != Role::Decode && !spec.slo.ttft) {
    return making.refuse("policy", "eco-freq bounds prefill steps by the objective slo.ttft_ms; state it");
  }
  if (spec.role != Role::Prefill && !spec.slo.gap()) {
    return making.refuse("policy",
                         "eco-freq bounds decode steps by the objective slo.itl_ms, else slo.tbt_ms; state one");
  }
  return {};
}

Result<std::shared_ptr<policy::EcoRoute>> make_eco_route(const EcoRouteOptions& o, const Making& making) {
  if (making.section != "routing.decode") {
    return making.refuse("policy",
                         "eco-route weighs decode batches; use it for routing.decode and, say, round-robin here");
  }
  return std::make_shared<policy::EcoRoute>(o, clocks_of_decodes(making.recipe));
}

}  // namespace

policy::ClocksOfInstances clocks_of_decodes(const Recipe& recipe) {
  const PolicyChoice& f = recipe.decode_frequency;
  if (f.policy != "eco-freq" || f.mode != Mode::Enforce) return {};
  auto eco = options_of<EcoFreqOptions>(f);
  return {std::move(eco.clocks), eco.margin, eco.raises_in_vain};
}

void register_voltanallm(Registry& to) {
  to.add<EcoFreqOptions>(SlotKind::Frequency, "eco-freq",
                         "EcoFreq: the lowest clock whose predicted step time meets the objective", eco_freq_options())
      .needs({.latency = true})
      .reserve("margin")
      .colocated_reserve("late_tokens")
      .weighs_power([](const EcoFreqOptions& o, Role role) { return o.late_tokens > 0.0 && role == Role::Colocated; })
      .problem(ascending)
      .admits(suits)
      .clocks([](const EcoFreqOptions& o, const InstanceSpec& spec) {
        return policy::make_clock_rule(o.clocks, spec, 0.0).clocks;
      })
      .overrun_slack([](const EcoFreqOptions& o) { return o.overrun > Span() ? o.overrun : Span::max(); })
      .makes([](const EcoFreqOptions& o, const Making& making) -> Result<std::shared_ptr<policy::EcoFreq>> {
        EcoFreqOptions options = o;
        if (o.late_requests > 0.0 && making.loads != nullptr) {
          options.late_requests_of = plan::may_be_late(*making.loads, o.late_requests);
        }
        return std::make_shared<policy::EcoFreq>(options, *making.spec);
      });
  to.add<EcoRouteOptions>(SlotKind::Routing, "eco-route",
                          "EcoRoute, for decode instances: prefers an instance whose clock does not have to rise",
                          eco_route_options())
      .makes(make_eco_route);
  to.add<TileAwareOptions>(
        SlotKind::Routing, "tile-aware", "Fills the batch of each instance in tiles of a fixed size",
        {option("tile_requests", &TileAwareOptions::tile_requests, "requests", {1, 1'000'000}, "Requests per tile")})
      .makes([](const TileAwareOptions& o, const Making&) -> Result<std::shared_ptr<policy::TileAware>> {
        return std::make_shared<policy::TileAware>(o.tile_requests);
      });
}

}  // namespace wattle::systems
