#pragma once
// The records of a run, the same for both drivers. Append-only; reports read nothing else.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/decision.h"
#include "model/instance.h"
#include "model/objectives.h"
#include "model/outcome.h"
#include "model/plan.h"
#include "model/service.h"

namespace wattle::journal {

enum class DecisionKind : std::uint8_t {
  Admission,
  RoutePrefill,
  RouteDecode,
  Clock,
  Queueing,
  Scaling,
  Phase,
  Length,
  Plan,  ///< a line of its own, journal::PlanRecord
  Step,  ///< of a plan: it began, is done, or was dropped
  Pool,
  Emergency,
};

using wattle::Phase;

/// The steps of the emergency ladder (DynamoLLM, section IV-D), in the order in which they are taken.
enum class Rung : std::uint8_t {
  Reorder,  ///< waiting requests are served by deadline
  Boost,    ///< an instance runs at its highest clock
  Resteer,  ///< a request that had not begun goes to another instance
  Squash,   ///< a request is returned to its client, which may try again
  Shed,     ///< a request of a class that the fleet cannot carry is refused
};
inline constexpr std::size_t kRungs = 5;

/// One decision, enforced or shadowed. `value` is the verdict, the instance id, the clock in MHz or the
/// queue key (asked only for requests that are held); for Scaling the GPUs of all instances wanted, for Phase the
/// instance's new Phase as a number, for Step the StepKind, beside the first instance it is about; for Length the
/// tokens a constant answered in the predictor's place; for Pool the pool a request is sent to, where there are
/// several; for Emergency the step taken, as a Rung. Clock decisions are recorded when they differ from the
/// instance's newest one; all others always.
struct DecisionRecord {
  Instant at;
  DecisionKind kind = DecisionKind::Admission;
  Mode mode = Mode::Enforce;
  RequestId request{-1};
  InstanceId instance = kNoInstance;
  std::int64_t value = 0;
  const char* reason = "";
};

/// State of one instance at a sampling instant.
struct Sample {
  Instant at;
  InstanceId instance;
  Milliwatts power;  ///< whole instance
  MegaHertz clock;   ///< effective, after transitions and TDP
  std::int32_t decode_requests = 0;
  std::int64_t prefill_tokens = 0;
  std::int32_t waiting_requests = 0;
  std::int64_t kv_tokens = 0;
  Picojoules energy{};  ///< booked by the ledger since the instance joined
};

/// A busy period of one instance, for the Chrome trace: consecutive steps of one kind.
struct Stretch {
  InstanceId instance;
  Instant begin;
  Instant end;
  StepShape shape;  ///< at the beginning
  std::int64_t steps = 0;
  MegaHertz clock;
};

/// An instance that a run had. Read from a run directory, the spec has what `run.json` keeps: role, names of GPU and
/// model, TP, highest clock, site, pool and node.
struct Instance {
  InstanceId id;
  InstanceSpec spec;
};

/// A plan beyond counts of instances: weights, clock ranges, steps, mandates, or one that was refused.
struct PlanRecord {
  Instant at;
  Mode mode = Mode::Enforce;
  const Plan& plan;            ///< valid during the call
  std::int64_t gpus = 0;       ///< of all instances wanted
  const char* flaw = nullptr;  ///< why it was refused; null: it was not
};

class Sink {
 public:
  virtual ~Sink() = default;
  /// An instance that was not there when the run began.
  virtual void joined(const Instance& instance) { (void)instance; }
  virtual void decision(const DecisionRecord& record) { (void)record; }
  virtual void plan(const PlanRecord& record) { (void)record; }
  virtual void outcome(const Outcome& outcome) { (void)outcome; }
  /// A request that had not left when the run ended (Fate::InFlight).
  virtual void left_behind(const Outcome& so_far) { (void)so_far; }
  virtual void sample(const Sample& sample) { (void)sample; }
  virtual void stretch(const Stretch& stretch) { (void)stretch; }
};

/// The sources by which a site's carbon is booked and decided, as text: "average, electricity-maps DE".
struct SiteFacts {
  std::string name;
  std::string books;
  std::string decisions;
};

/// First line of a journal.
struct RunFacts {
  std::string scenario;
  std::string recipe;
  std::string driver;  ///< "sim" or "live"
  std::uint64_t seed = 0;
  Slo slo;                                ///< the fleet's
  Service service;                        ///< without its tenants
  std::optional<FairnessBasis> fairness;  ///< none: the time that requests take alone is unknown
  std::vector<Instance> instances;
  std::vector<SiteFacts> sites = {};  ///< by SiteId; empty: not stated
};

}  // namespace wattle::journal
