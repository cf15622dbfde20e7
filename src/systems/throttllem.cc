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
             "Share of slo.tbt_ms and slo.e2e_ms kept in reserve. Reports use the objectives without it"),
      option("length_inflation", &A::inflation, "", {0, 100}, "Predicted output lengths are increased by this share"),
      option("grace_iterations", &A::grace, "iterations", {0, 1'000'000},
             "Number of iterations by which a request may exceed its predicted length before it is projected as "
             "overrun says"),
      option("overrun", &A::outlived,
             "Assumed length of a request that exceeds its prediction. limit: its max_tokens (paper); residual: first "
             "the typical final length of requests that have become this long, then max_tokens"),
      option(
          "count_prefill", &A::count_prefill,
          "Count the time for computing prompts when admission checks the deadlines of running requests. Off: paper"),
  };
}

std::vector<config::Option<ThrottllemClockOptions>> clock_options() {
  using C = ThrottllemClockOptions;
  return {
      option("pick", &C::pick,
             "Which of the clocks that meet every objective to use. lowest: the lowest (paper); least-energy: the one "
             "with the least predicted energy for the running requests"),
      option("clocks_mhz", &C::clocks, "MHz", config::kClockBounds,
             "Clocks to choose from, in ascending order. Empty: all that the GPU can lock, 15 MHz apart or more"),
      option("lowest_clock_mhz", &C::lowest_clock, "MHz", config::kClockBounds,
             "With clocks_mhz empty: lowest clock to use. Below the energy-optimal clock the same batch takes both "
             "longer and more energy. min: no limit (paper)"),
      option("park_idle", &C::park_idle,
             "Lock idle_clock_mhz while the instance has no work. Off: keep the last clock"),
      option("idle_clock_mhz", &C::idle_clock, "MHz", config::kClockBounds,
             "Clock to lock while the instance has no work"),
      option("margin", &C::margin, "", {0, 0.95},
             "Share of the objectives that the clock leaves unused, in addition to admission's margin. 0: paper"),
      option("on_leave", &C::on_leave,
             "Also choose a new clock when a request finishes or exceeds its predicted length. Off: only on admission "
             "(paper)"),
      option("max_while_held", &C::max_while_held,
             "Use the highest clock while requests are held. Off: the clock ignores the queue (paper)"),
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
      option("margin", &S::margin, "", {0, 0.95}, "Share of each instance's maximum load kept free. 0: paper"),
      option("grace_s", &S::grace, "s", {0, 86'400},
             "For this long after its start, a new instance may only be replaced by a larger one. none: its start-up "
             "time (paper)"),
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
                            "Admits a request if a projection of batch and KV cache meets every objective",
                            admission_options())
      .needs({.latency = true, .step_reports = true})
      .admits(throttllem_admits)
      .clocks([](const ThrottllemOptions&, const InstanceSpec&) { return std::vector<MegaHertz>(); })
      .makes([](const ThrottllemOptions& o, const Making& making) -> Result<std::shared_ptr<policy::Throttllem>> {
        return std::make_shared<policy::Throttllem>(o, throttllem_clock(making.recipe), making.length);
      });
  to.add<ThrottllemClockOptions>(SlotKind::Frequency, kThrottllem,
                                 "A clock at which the same projection meets every objective", clock_options())
      .needs({.latency = true})
      .reserve("margin")  // admission's would hold requests back until they are late
      .weighs_power([](const ThrottllemClockOptions& o, Role) { return o.pick == ClockPick::LeastEnergy; })
      .hosted_by(Host::Admission)
      .clocks([](const ThrottllemClockOptions& o, const InstanceSpec& spec) {
        return clocks_to_choose(o.clocks, o.lowest_clock, spec);
      })
      .makes(share_admission<policy::Throttllem, ThrottllemClockOptions>);
  to.add<SmallestEngineOptions>(SlotKind::Scaling, "smallest-engine",
                                "One instance, of the smallest [[fleet]] that carries the load", scaling_options())
      .reserve("margin")
      .makes(make_smallest_engine);
}

}  // namespace wattle::systems
