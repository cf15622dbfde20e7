// FREESH: MIAD on each node, and orders of held requests that know how long service takes. Its pool planner is plan/.
#include <memory>
#include <utility>

#include "policy/frequency/miad.h"
#include "policy/queueing/laxity.h"
#include "systems/registry.h"

namespace wattle::systems {

namespace {

using config::option;
using policy::MiadOptions;
using policy::ServiceOptions;

constexpr config::Bounds kTime{0, 3'600'000};

std::vector<config::Option<MiadOptions>> miad_options() {
  using M = MiadOptions;
  return {
      option("factor", &M::factor, "", {1.01, 100}, "M: congested, the clock rises by this factor"),
      option("decrease_mhz", &M::decrease, "MHz", {1, 10'000}, "delta: otherwise it falls by this"),
      option("floor_mhz", &M::floor, "MHz", {0, 10'000}, "And no further than this"),
      option("period_ms", &M::period, "ms", {1, 3'600'000}, "Between two decisions"),
      option("tbt_ms", &M::tbt, "ms", kTime, "A longer gap between tokens is congestion"),
      option("ttft_short_ms", &M::ttft_short, "ms", kTime, "Likewise to the first token of a short prompt"),
      option("ttft_long_ms", &M::ttft_long, "ms", kTime, "And of a longer one"),
      option("short_prompt", &M::short_prompt, "tokens", {0, 10'000'000}, "The longest short prompt"),
      option("quantile", &M::quantile, "", {0, 1},
             "Share of a period's latencies that has to be within; the paper does not name its statistic"),
      option("samples", &M::samples, "gaps", {1, 1'000'000'000}, "A period with fewer goes on"),
  };
}

template <typename Order>
void add_order(Registry& to, const char* name, const char* description) {
  using S = ServiceOptions;
  to.add<ServiceOptions>(
        SlotKind::Queueing, name, description,
        {option("ttft_ms", &S::ttft, "ms", kTime, "T_TTFT: to the first token where nobody waits"),
         option("tbt_ms", &S::tbt, "ms", kTime, "T_TBT: between tokens"),
         option("window", &S::window, "", {0.01, 1000},
                "alpha: a request is to be done within this many times what it takes where nobody waits"),
         option("preemptive", &S::preemptive,
                "A held request may displace a running one, which comes back and is computed again (simulated)"),
         option("margin_ms", &S::margin, "ms", kTime, "preemptive: by so much more urgent it has to be"),
         option("congested_ms", &S::congested, "ms", kTime,
                "llf: only while requests wait longer than this to be dispatched, else first come first served; 0: "
                "always")})
      .makes([](const ServiceOptions& o, const Making&) -> Result<std::shared_ptr<Order>> {
        return std::make_shared<Order>(o);
      });
}

}  // namespace

void register_freesh(Registry& to) {
  to.add<MiadOptions>(
        SlotKind::Frequency, "miad",
        "FREESH: the clock rises by a factor when requests suffer and falls by a constant when they do not",
        miad_options())
      .makes([](const MiadOptions& o, const Making&) -> Result<std::shared_ptr<policy::Miad>> {
        return std::make_shared<policy::Miad>(o);
      });
  add_order<policy::EarliestDeadlineFirst>(to, "edf", "Earliest deadline first");
  add_order<policy::ShortestRemainingFirst>(to, "srtf", "The shortest predicted service first");
  add_order<policy::LeastLaxityFirst>(to, "llf", "FREESH: the least time to spare first");
}

}  // namespace wattle::systems
