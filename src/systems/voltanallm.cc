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
      option("clocks_mhz", &F::clocks, "MHz", config::kClockBounds, "The clocks to choose from, ascending"),
      option("park_idle", &F::park_idle, "Lock idle_clock_mhz while there is no work; off: the lowest of clocks_mhz"),
      option("idle_clock_mhz", &F::idle_clock, "MHz", config::kClockBounds, "Clock of an instance without work"),
      option(
          "margin", &F::margin, "", {0, 0.95},
          "Share of slo.ttft_ms and slo.itl_ms (not stated: slo.tbt_ms) kept in reserve; reports use the stated SLO"),
      option("dwell_ms", &F::dwell, "ms", {0, 3'600'000}, "Shortest time from a raise to the next decrease"),
      option("overrun_ms", &F::overrun, "ms", {0, 600'000},
             "A step that outlasts its prediction by this much raises the clock at once; 0: never"),
      option(
          "late_handovers", &F::late_handovers, "", {0, 0.5},
          "Share of first tokens that may be late as they wait for the decode engine, by the newest of them: shorter "
          "steps on prefill and decode instances; 0: not looked at (paper)"),
      option("step_yield", &F::step_yield, "", {0, 1},
             "Share of the tokens beyond one that a decode instance's step gives a request (speculative decoding, as "
             "reported) by which a step may exceed slo.itl_ms where it must; 0: not looked at (paper)"),
      option("late_tokens", &F::late_tokens, "", {0, 0.5},
             "Where prompts and decodes share steps: share of gaps that may be beyond slo.itl_ms, and of first tokens "
             "beyond slo.ttft_ms, besides those that are at the highest clock, as the price of less energy; 0: not "
             "weighed "
             "(paper)"),
      option("late_requests", &F::late_requests, "", {0, 0.5},
             "late_tokens: share of requests that may miss their objectives before less of it, and then of the energy "
             "saved, is given up; besides those that no instance keeps, where a load profile says so; 0: not looked "
             "at"),
      option("newcomers", &F::newcomers,
             "late_tokens: no step is so long that the first token of who comes while it runs would be late for it"),
      option("carries_load", &F::carries_load,
             "A decode instance runs at no clock at which its batch would outgrow what the highest clock steps within "
             "slo.itl_ms, or its KV cache holds; off: paper"),
      option("later_chunks", &F::later_chunks,
             "A step that computes a part of a prompt (chunked prefill) leaves its objective's time for the rest; off: "
             "paper"),
      option("raises_in_vain", &F::raises_in_vain,
             "Where no clock meets the objective: the highest, though a lower one is as fast, as where an engine's "
             "host decides (paper); off: the lowest that is as fast"),
      decision_window(),
  };
}

std::vector<config::Option<EcoRouteOptions>> eco_route_options() {
  using R = EcoRouteOptions;
  return {
      option("max_spread_mhz", &R::max_spread, "MHz", {0, 10'000},
             "Delta; a request that would widen the spread of clocks further is placed by beyond_spread"),
      beyond_spread(),
      option("borders", &R::borders,
             "clocks: a request costs more where it raises a clock (paper); tiles: there, and where it begins a tile "
             "of the batch; fills tiles, and max_spread_mhz and beyond_spread play no part"),
      option("spare_overloaded", &R::spare_overloaded,
             "No request to an instance that even its highest clock could not keep within slo.itl_ms, while another "
             "instance can; off: paper"),
      option("overload_margin", &R::overload_margin, "share", {0, 0.99},
             "Share of slo.itl_ms kept in reserve there, whatever eco-freq's margin is"),
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
          for (const auto& one : making.loads->classes) {
            options.late_requests_of.push_back(plan::may_be_late(one, o.late_requests));
          }
        }
        return std::make_shared<policy::EcoFreq>(options, *making.spec);
      });
  to.add<EcoRouteOptions>(SlotKind::Routing, "eco-route",
                          "EcoRoute, for the decode leg: where no clock has to rise for the request",
                          eco_route_options())
      .makes(make_eco_route);
  to.add<TileAwareOptions>(
        SlotKind::Routing, "tile-aware", "Fills tiles of a fixed size",
        {option("tile_requests", &TileAwareOptions::tile_requests, "requests", {1, 1'000'000}, "Requests in a tile")})
      .makes([](const TileAwareOptions& o, const Making&) -> Result<std::shared_ptr<policy::TileAware>> {
        return std::make_shared<policy::TileAware>(o.tile_requests);
      });
}

}  // namespace wattle::systems
