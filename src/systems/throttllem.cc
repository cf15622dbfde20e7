// throttLL'eM: one object admits to the fleet and chooses every clock, where requests are admitted; the autoscaler
// beside it.
#include <fmt/core.h>

#include <array>
#include <memory>

#include "policy/scaling/smallest_engine.h"
#include "policy/throttllem/throttllem.h"
#include "systems/clock_range.h"
#include "systems/registry.h"

namespace wattle::config {

template <>
struct Codec<policy::Outlived> : NamedCodec<policy::Outlived, Codec<policy::Outlived>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, policy::Outlived>>(
        {{"limit", policy::Outlived::Limit}, {"residual", policy::Outlived::Residual}});
  }
};

template <>
struct Codec<policy::ClockPick> : NamedCodec<policy::ClockPick, Codec<policy::ClockPick>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, policy::ClockPick>>(
        {{"lowest", policy::ClockPick::Lowest}, {"least-energy", policy::ClockPick::LeastEnergy}});
  }
};

}  // namespace wattle::config

namespace wattle::systems {

namespace {

using config::option;
using policy::ClockPick;
using policy::SmallestEngineOptions;
using policy::ThrottllemClockOptions;
using policy::ThrottllemOptions;

constexpr const char* kThrottllem = "throttllem";

std::vector<config::Option<ThrottllemOptions>> admission_options() {
  using A = ThrottllemOptions;
  return {
      option("margin", &A::margin, "", {0, 0.95},
             "Share of slo.tbt_ms and slo.e2e_ms kept in reserve; reports use the stated SLO"),
      option("length_inflation", &A::inflation, "", {0, 100}, "Predicted lengths are taken this share longer"),
      option("grace_iterations", &A::grace, "iterations", {0, 1'000'000},
             "A request may outlive its prediction by so many before it is projected at max_tokens"),
      option("overrun", &A::outlived,
             "A request that outlives its prediction is projected at max_tokens (limit, paper), or first at what "
             "requests as long have become so far (residual)"),
      option("count_prefill", &A::count_prefill,
             "Admission counts computing prompts against running requests' deadlines; off: paper"),
  };
}

std::vector<config::Option<ThrottllemClockOptions>> clock_options() {
  using C = ThrottllemClockOptions;
  return {
      option("pick", &C::pick,
             "Of the clocks that keep every objective the lowest (paper), or the one at which what runs takes least "
             "predicted energy (least-energy)"),
      option("clocks_mhz", &C::clocks, "MHz", config::kClockBounds,
             "The clocks to choose from, ascending; empty: every step of the GPU"),
      option(
          "lowest_clock_mhz", &C::lowest_clock, "MHz", config::kClockBounds,
          "With clocks_mhz empty: steps of the GPU below this are left out (ours: below its energy-optimal clock the "
          "same batch takes longer and more energy); min: none (paper)"),
      option("park_idle", &C::park_idle, "Lock idle_clock_mhz while there is no work; off: the clock stays"),
      option("idle_clock_mhz", &C::idle_clock, "MHz", config::kClockBounds, "Clock of an instance without work"),
      option("margin", &C::margin, "", {0, 0.95},
             "Share of the objectives that the clock leaves unused, on top of admission's margin; paper: 0"),
      option("on_leave", &C::on_leave,
             "Choose again when a request ends or outlives its prediction; off: on admission only (paper)"),
      option("max_while_held", &C::max_while_held,
             "Highest clock while requests are held; off: the clock does not know of the queue (paper)"),
  };
}

/// The clock's options, of a recipe whose clocks are this policy's; defaults for others.
ThrottllemClockOptions throttllem_clock(const Recipe& recipe) {
  const PolicyChoice& f = recipe.decode_frequency;
  return f.policy == kThrottllem ? options_of<ThrottllemClockOptions>(f) : ThrottllemClockOptions{};
}

Result<void> throttllem_admits(const ThrottllemOptions&, const Making& making) {
  const InstanceSpec& spec = *making.spec;
  if (spec.role != Role::Colocated) {
    return making.refuse("policy", "throttllem looks at instances that prefill and decode; the scenario has others");
  }
  if (!spec.slo.tbt && !spec.slo.e2e) {
    return making.refuse(
        "policy", "throttllem bounds slo.tbt_ms (mean iteration) and slo.e2e_ms (each request); state one of them");
  }
  const auto clock = throttllem_clock(making.recipe);
  return check_clock_range(clock.clocks, clock.lowest_clock, making);
}

std::vector<config::Option<SmallestEngineOptions>> scaling_options() {
  using S = SmallestEngineOptions;
  return {
      option("margin", &S::margin, "", {0, 0.95}, "Share of each maximum load kept free; paper: 0"),
      option("grace_s", &S::grace, "s", {0, 86'400},
             "How long a new instance gives way to larger ones only; none: its spawn time (paper)"),
  };
}

Result<std::shared_ptr<policy::ScalingPolicy>> make_smallest_engine(const SmallestEngineOptions& options,
                                                                    const Making& making) {
  const auto& shapes = making.scaling.shapes;
  for (std::size_t i = 1; i < shapes.size(); ++i) {
    if (shapes[i - 1].gpus < shapes[i].gpus && shapes[i - 1].max_load_per_s < shapes[i].max_load_per_s) continue;
    return making.refuse(
        "policy",
        fmt::format("smallest-engine takes [[fleet]] entries in order of size; {} GPUs with {:.3g} "
                    "requests/s come before {} GPUs with {:.3g}",
                    shapes[i - 1].gpus, shapes[i - 1].max_load_per_s, shapes[i].gpus, shapes[i].max_load_per_s));
  }
  SmallestEngineOptions made = options;
  made.shapes = shapes;
  return std::make_shared<policy::SmallestEngine>(std::move(made));
}

}  // namespace

void register_throttllem(Registry& to) {
  to.add<ThrottllemOptions>(SlotKind::Admission, kThrottllem,
                            "Admits what a projection of batch and KV cache says keeps every objective",
                            admission_options())
      .needs({.latency = true, .step_reports = true})
      .admits(throttllem_admits)
      .clocks([](const ThrottllemOptions&, const InstanceSpec&) { return std::vector<MegaHertz>(); })
      .makes([](const ThrottllemOptions& o, const Making& making) -> Result<std::shared_ptr<policy::Throttllem>> {
        return std::make_shared<policy::Throttllem>(o, throttllem_clock(making.recipe), making.length);
      });
  to.add<ThrottllemClockOptions>(SlotKind::Frequency, kThrottllem,
                                 "A clock that keeps every objective by the same projection", clock_options())
      .needs({.latency = true})
      .reserve("margin")  // admission's would hold requests back until they are late
      .weighs_power([](const ThrottllemClockOptions& o, Role) { return o.pick == ClockPick::LeastEnergy; })
      .hosted_by(Host::Admission)
      .clocks([](const ThrottllemClockOptions& o, const InstanceSpec& spec) {
        return clocks_to_choose(o.clocks, o.lowest_clock, spec);
      })
      .makes(share_admission<policy::Throttllem, ThrottllemClockOptions>);
  to.add<SmallestEngineOptions>(SlotKind::Scaling, "smallest-engine",
                                "One instance, the smallest [[fleet]] that carries the rate", scaling_options())
      .reserve("margin")
      .makes(make_smallest_engine);
}

}  // namespace wattle::systems
