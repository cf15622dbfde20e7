// The ReTail-like baseline of throttLL'eM's evaluation: one object that admits all requests, tracks each instance's
// queue and chooses its clock by a regression over whole requests.
#include <memory>

#include "policy/retail/retail.h"
#include "systems/clock_range.h"
#include "systems/registry.h"

namespace wattle::systems {

namespace {

using config::option;
using policy::RetailClockOptions;
using policy::RetailOptions;

constexpr const char* kRetail = "retail";

RetailClockOptions retail_clock(const Recipe& recipe) {
  const PolicyChoice& f = recipe.decode_frequency;
  return f.policy == kRetail ? options_of<RetailClockOptions>(f) : RetailClockOptions{};
}

Result<void> admits(const RetailOptions&, const Making& making) {
  if (making.spec->role != Role::Colocated) {
    return making.refuse("policy", "retail looks at instances that prefill and decode; the scenario has others");
  }
  if (!making.spec->slo.e2e) return making.refuse("policy", "retail bounds slo.e2e_ms of each request; state it");
  const auto clock = retail_clock(making.recipe);
  return check_clock_range(clock.clocks, clock.lowest_clock, making);
}

}  // namespace

void register_retail(Registry& to) {
  to.add<RetailOptions>(SlotKind::Admission, kRetail,
                        "Admits everything; clocks are chosen with knowledge of the queue",
                        {option("margin", &RetailOptions::margin, "", {0, 0.95},
                                "Share of slo.e2e_ms kept in reserve. Reports use the objective without it"),
                         option("length_inflation", &RetailOptions::inflation, "", {0, 100},
                                "Predicted output lengths are increased by this share")})
      .needs({.request_latency = true, .step_reports = true})
      .reserve("margin")
      .admits(admits)
      .makes([](const RetailOptions& o, const Making& making) -> Result<std::shared_ptr<policy::Retail>> {
        return std::make_shared<policy::Retail>(o, retail_clock(making.recipe));
      });
  to.add<RetailClockOptions>(
        SlotKind::Frequency, kRetail, "The lowest clock at which every queued request meets its objective",
        {option("clocks_mhz", &RetailClockOptions::clocks, "MHz", config::kClockBounds,
                "Clocks to choose from, in ascending order. Empty: all that the GPU can lock, 15 MHz apart or more"),
         option("lowest_clock_mhz", &RetailClockOptions::lowest_clock, "MHz", config::kClockBounds,
                "With clocks_mhz empty: lowest clock to use. min: no limit")})
      .hosted_by(Host::Admission)
      .makes(share_admission<policy::Retail, RetailClockOptions>);
}

}  // namespace wattle::systems
