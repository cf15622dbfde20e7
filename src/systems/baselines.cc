// What needs no system: fixed clocks, plain routing, open or bounded admission, first come first served, no scaling.
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
  to.add(SlotKind::Routing, "round-robin", "In turn").makes(plain<policy::RoundRobin>);
  to.add(SlotKind::Routing, "least-loaded", "The fewest requests").makes(plain<policy::LeastLoaded>);
  to.add(SlotKind::Routing, "least-prompts", "The fewest prompt tokens still to be computed, then the fewest requests")
      .makes(plain<policy::LeastPrompts>);
  to.add(SlotKind::Routing, "power-of-two", "The emptier of two at random").makes(plain<policy::PowerOfTwo>);
  using Prefix = policy::PrefixAffinityOptions;
  to.add<Prefix>(
        SlotKind::Routing, "prefix-affinity",
        "Requests of a session, else prompts that begin alike, to the same instance, whose prefix cache then serves "
        "them, within a bound of load (consistent hashing with bounded loads); least loaded where nothing is known",
        {option("prefix_tokens", &Prefix::prefix_tokens, "tokens", {1, 10'000'000},
                "Prompts equal so far belong together"),
         option("load_factor", &Prefix::load_factor, "", {1, 100},
                "An instance may have so many times the mean of assigned requests")})
      .makes([](const Prefix& o, const Making&) -> Result<std::shared_ptr<policy::PrefixAffinity>> {
        return std::make_shared<policy::PrefixAffinity>(o);
      });
  to.add(SlotKind::Routing, "random", "Any").makes(plain<policy::Random>);
  using Turns = policy::WeightedRoundRobinOptions;
  to.add<Turns>(SlotKind::Routing, "weighted-round-robin", "In turn, by fleet.weight",
                {option("max_in_flight_per_gpu", &Turns::max_in_flight_per_gpu, "requests", {0, 1'000'000},
                        "An instance with so many is left out; where all are, requests are held; 0: no bound")})
      .makes([](const Turns& o, const Making&) -> Result<std::shared_ptr<policy::WeightedRoundRobin>> {
        return std::make_shared<policy::WeightedRoundRobin>(o);
      });
  to.add(SlotKind::Routing, "least-energy",
         "DynamoLLM: the instance to which the request adds the least energy, within what each carries")
      .makes(plain<policy::LeastEnergy>);
}

}  // namespace

void register_baselines(Registry& to) {
  using policy::BoundedAdmissionOptions;
  using policy::IdleParkingOptions;
  using policy::StaticClockOptions;
  to.add<StaticClockOptions>(
        SlotKind::Frequency, "static", "One clock",
        {option("clock_mhz", &StaticClockOptions::clock, "MHz", config::kClockBounds, "The clock"),
         option("park_idle", &StaticClockOptions::park_idle, "Lock idle_clock_mhz while there is no work"),
         option("idle_clock_mhz", &StaticClockOptions::idle_clock, "MHz", config::kClockBounds,
                "Clock of an instance without work")})
      .reserve("clock_mhz")
      .makes([](const StaticClockOptions& o, const Making& making) -> Result<std::shared_ptr<policy::StaticClock>> {
        return std::make_shared<policy::StaticClock>(o, *making.spec);
      });
  to.add<IdleParkingOptions>(
        SlotKind::Frequency, "idle-parking", "One clock for work, another without",
        {option("clock_mhz", &IdleParkingOptions::clock, "MHz", config::kClockBounds, "The clock while there is work"),
         option("idle_clock_mhz", &IdleParkingOptions::idle_clock, "MHz", config::kClockBounds,
                "Clock of an instance without work")})
      .reserve("clock_mhz")
      .makes([](const IdleParkingOptions& o, const Making& making) -> Result<std::shared_ptr<policy::IdleParking>> {
        return std::make_shared<policy::IdleParking>(o, *making.spec);
      });
  add_routing(to);
  to.add<policy::FcfsOptions>(
        SlotKind::Queueing, "fcfs", "First come, first served",
        {option("strict", &policy::FcfsOptions::strict,
                "One line for all pools: who waits for a full one holds up those behind (FREESH's "
                "direct mode); off: a class has its own line")})
      .makes([](const policy::FcfsOptions& o, const Making&) -> Result<std::shared_ptr<policy::Fcfs>> {
        return std::make_shared<policy::Fcfs>(o);
      });
  to.add(SlotKind::Admission, "always", "Everything enters").makes(plain<policy::AlwaysAdmit>);
  to.add<BoundedAdmissionOptions>(
        SlotKind::Admission, "bounded", "Bounds what is in flight and what is held",
        {option("max_in_flight_per_instance", &BoundedAdmissionOptions::max_in_flight_per_instance, "requests",
                {1, 1'000'000'000}, "Beyond, requests are held"),
         option("max_held", &BoundedAdmissionOptions::max_held, "requests", {0, 1'000'000'000},
                "Beyond, requests are rejected")})
      .makes([](const BoundedAdmissionOptions& o, const Making&) -> Result<std::shared_ptr<policy::BoundedAdmission>> {
        return std::make_shared<policy::BoundedAdmission>(o);
      });
  to.add(SlotKind::Scaling, "none", "The fleet stays as it is")
      .makes([](const NoOptions&, const Making&) -> Result<std::shared_ptr<policy::ScalingPolicy>> { return nullptr; });
}

}  // namespace wattle::systems
