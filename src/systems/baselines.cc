// Policies that belong to no paper: fixed clocks, plain routing, open or bounded admission, first come first served, no
// scaling.
#include <memory>

#include "policy/admission/always.h"
#include "policy/admission/bounded.h"
#include "policy/frequency/idle_parking.h"
#include "policy/frequency/static_clock.h"
#include "policy/queueing/fcfs.h"
#include "policy/routing/least_energy.h"
#include "policy/routing/least_loaded.h"
#include "policy/routing/least_prompts.h"
#include "policy/routing/power_of_two.h"
#include "policy/routing/prefix_affinity.h"
#include "policy/routing/random.h"
#include "policy/routing/round_robin.h"
#include "policy/routing/weighted_round_robin.h"
#include "systems/registry.h"

namespace wattle::systems {

namespace {

using config::option;

template <typename Made>
Result<std::shared_ptr<Made>> plain(const NoOptions&, const Making&) {
  return std::make_shared<Made>();
}

void add_routing(Registry& to) {
  to.add(SlotKind::Routing, "round-robin", "Instances take turns").makes(plain<policy::RoundRobin>);
  to.add(SlotKind::Routing, "least-loaded", "The instance with the fewest requests").makes(plain<policy::LeastLoaded>);
  to.add(SlotKind::Routing, "least-prompts",
         "The instance with the fewest prompt tokens still to compute, then the fewest requests")
      .makes(plain<policy::LeastPrompts>);
  to.add(SlotKind::Routing, "power-of-two", "The less loaded of two random instances").makes(plain<policy::PowerOfTwo>);
  using Prefix = policy::PrefixAffinityOptions;
  to.add<Prefix>(SlotKind::Routing, "prefix-affinity",
                 "Sends requests of one session, or with the same prompt prefix, to the same instance to reuse its "
                 "prefix cache, up to a load limit (consistent hashing with bounded loads). Requests with neither go "
                 "to the least loaded instance",
                 {option("prefix_tokens", &Prefix::prefix_tokens, "tokens", {1, 10'000'000},
                         "Prompts with equal tokens up to this length go to the same instance"),
                  option("load_factor", &Prefix::load_factor, "", {1, 100},
                         "Maximum number of assigned requests per instance, as a multiple of the mean")})
      .makes([](const Prefix& o, const Making&) -> Result<std::shared_ptr<policy::PrefixAffinity>> {
        return std::make_shared<policy::PrefixAffinity>(o);
      });
  to.add(SlotKind::Routing, "random", "A random instance").makes(plain<policy::Random>);
  using Turns = policy::WeightedRoundRobinOptions;
  to.add<Turns>(
        SlotKind::Routing, "weighted-round-robin", "Instances take turns, weighted by fleet.weight",
        {option(
            "max_in_flight_per_gpu", &Turns::max_in_flight_per_gpu, "requests", {0, 1'000'000},
            "An instance with this many requests per GPU gets no more; if all have, requests are held. 0: no limit")})
      .makes([](const Turns& o, const Making&) -> Result<std::shared_ptr<policy::WeightedRoundRobin>> {
        return std::make_shared<policy::WeightedRoundRobin>(o);
      });
  to.add(SlotKind::Routing, "least-energy",
         "DynamoLLM: the instance to which the request adds the least energy, among those with capacity")
      .makes(plain<policy::LeastEnergy>);
}

}  // namespace

void register_baselines(Registry& to) {
  using policy::BoundedAdmissionOptions;
  using policy::IdleParkingOptions;
  using policy::StaticClockOptions;
  to.add<StaticClockOptions>(
        SlotKind::Frequency, "static", "One fixed clock",
        {option("clock_mhz", &StaticClockOptions::clock, "MHz", config::kClockBounds, "Clock to lock"),
         option("park_idle", &StaticClockOptions::park_idle, "Lock idle_clock_mhz while the instance has no work"),
         option("idle_clock_mhz", &StaticClockOptions::idle_clock, "MHz", config::kClockBounds,
                "Clock to lock while the instance has no work")})
      .reserve("clock_mhz")
      .makes([](const StaticClockOptions& o, const Making& making) -> Result<std::shared_ptr<policy::StaticClock>> {
        return std::make_shared<policy::StaticClock>(o, *making.spec);
      });
  to.add<IdleParkingOptions>(SlotKind::Frequency, "idle-parking", "One clock while there is work, another while idle",
                             {option("clock_mhz", &IdleParkingOptions::clock, "MHz", config::kClockBounds,
                                     "Clock to lock while there is work"),
                              option("idle_clock_mhz", &IdleParkingOptions::idle_clock, "MHz", config::kClockBounds,
                                     "Clock to lock while the instance has no work")})
      .reserve("clock_mhz")
      .makes([](const IdleParkingOptions& o, const Making& making) -> Result<std::shared_ptr<policy::IdleParking>> {
        return std::make_shared<policy::IdleParking>(o, *making.spec);
      });
  add_routing(to);
  to.add<policy::FcfsOptions>(SlotKind::Queueing, "fcfs", "First come, first served",
                              {option("strict", &policy::FcfsOptions::strict,
                                      "One queue for all pools: a request that waits for a full pool blocks those "
                                      "behind it (FREESH's direct mode). Off: one queue per class")})
      .makes([](const policy::FcfsOptions& o, const Making&) -> Result<std::shared_ptr<policy::Fcfs>> {
        return std::make_shared<policy::Fcfs>(o);
      });
  to.add(SlotKind::Admission, "always", "Admits everything").makes(plain<policy::AlwaysAdmit>);
  to.add<BoundedAdmissionOptions>(
        SlotKind::Admission, "bounded", "Limits the requests in flight and those held",
        {option("max_in_flight_per_instance", &BoundedAdmissionOptions::max_in_flight_per_instance, "requests",
                {1, 1'000'000'000},
                "Requests in flight per instance, in the mean over the pools that a request may go to; more are held"),
         option("max_held", &BoundedAdmissionOptions::max_held, "requests", {0, 1'000'000'000},
                "Requests held; more are rejected")})
      .makes([](const BoundedAdmissionOptions& o, const Making&) -> Result<std::shared_ptr<policy::BoundedAdmission>> {
        return std::make_shared<policy::BoundedAdmission>(o);
      });
  to.add(SlotKind::Scaling, "none", "The fleet stays as it is")
      .makes([](const NoOptions&, const Making&) -> Result<std::shared_ptr<policy::ScalingPolicy>> { return nullptr; });
}

}  // namespace wattle::systems
