#include "policy/routing/least_energy.h"

#include <algorithm>

#include "model/believed_load.h"
#include "model/classifier.h"
#include "policy/routing/least_loaded.h"

namespace wattle::policy {

namespace {

/// Energy of a request at an instance with otherwise unchanged load: its prompt alone, then the added energy of each
/// step for as many steps as it has tokens. In mW x s; only used to compare instances.
double by_steps(const InstanceView& view, const Request& request) {
  const LatencyModel& latency = *view.spec->beliefs.latency;
  const PowerModel& power = *view.spec->beliefs.power;
  const MegaHertz clock = set_clock(view);
  const auto cost = [&](const StepShape& shape) {
    return static_cast<double>(power.step_power(shape, clock).value()) * latency.step_time(shape, clock).seconds();
  };
  StepShape prompt;
  prompt.prefill_requests = 1;
  prompt.prefill_tokens = request.prompt_tokens;
  prompt.prefill_context_tokens = std::int64_t{request.prompt_tokens} * request.prompt_tokens / 2;
  StepShape now = view.step.shape;
  now.prefill_requests = 0;
  now.prefill_tokens = 0;
  now.prefill_context_tokens = 0;
  const std::int32_t output = std::max(1, Classifier::believed_output(request));
  StepShape then = now;
  ++then.decode_requests;
  then.decode_kv_tokens += request.prompt_tokens + output / 2;
  const double before = now.idle() ? 0.0 : cost(now);
  return cost(prompt) + (cost(then) - before) * output;
}

/// Capacity for a class and present load, in requests per second, by the load profile. Computed once per candidate,
/// because the decay takes an exponential.
struct Reading {
  double most = 0.0;   ///< within its objectives at its highest clock
  double share = 0.0;  ///< recent load as a share of capacity
  [[nodiscard]] double load() const { return share * most; }
};
constexpr double kOneMore = 1.0 / LoadShare::kMemory.seconds();

Reading read(const InstanceView& view, ClassId of, Instant now) {
  if (view.spec->beliefs.load == nullptr) return {};
  const double most = most_load_per_s(view, of);
  // What waits there is not forgotten: it is still to be served.
  const double waiting = most > 0.0 ? view.step.waiting_requests * LoadShare::of_one(most) : 0.0;
  return {most, std::max(view.load.at(now), waiting)};
}

bool over(const InstanceView& view, const Reading& reading) {
  if (view.spec->beliefs.load == nullptr || view.assigned_requests == 0) return false;
  return !(reading.most > 0.0) || reading.share + LoadShare::of_one(reading.most) > 1.0;
}

/// Within its objectives at the clock that it is set to, with one more.
bool carried_now(const InstanceView& view, ClassId of, const Reading& reading) {
  const LoadProfile* const profile = view.spec->beliefs.load;
  return profile == nullptr || reading.load() + kOneMore <= profile->max_load_per_s(of, set_clock(view));
}

double added(const InstanceView& view, const Request& request, const Reading& reading) {
  const Beliefs& beliefs = view.spec->beliefs;
  if (beliefs.load != nullptr) {
    if (!(reading.most > 0.0)) return 0.0;
    const ClassId of = request.request_class;
    const double load = reading.load();
    // A clock that carries the load within the objectives: below it there is no profile to read.
    const MegaHertz clock = beliefs.load->clock_for(of, load, set_clock(view));
    const MegaHertz then = beliefs.load->clock_for(of, load + kOneMore, clock);
    const Watts more = beliefs.load->at(of, load + kOneMore, then).power;
    return (more - beliefs.load->at(of, load, clock).power).value() / kOneMore;
  }
  return beliefs.power != nullptr && beliefs.latency != nullptr ? by_steps(view, request) : 0.0;
}

}  // namespace

bool overfull(const InstanceView& view, const Request& request, Instant now) {
  return over(view, read(view, request.request_class, now));
}

double added_energy(const InstanceView& view, const Request& request, Instant now) {
  return added(view, request, read(view, request.request_class, now));
}

RouteDecision LeastEnergy::route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                                 RandomStream&) {
  const InstanceView* best = nullptr;
  const InstanceView* least_full = nullptr;
  double least = 0.0, least_share = 0.0;
  bool in_time = false;  // the best is, at the clock that it has
  for (const InstanceView* candidate : candidates) {
    const Reading reading = read(*candidate, request.request_class, now);
    if (least_full == nullptr || reading.share < least_share) {
      least_full = candidate;
      least_share = reading.share;
    }
    if (over(*candidate, reading)) continue;
    const bool fits = carried_now(*candidate, request.request_class, reading);
    if (in_time && !fits) continue;
    const double more = added(*candidate, request, reading);
    const bool better =
        best == nullptr || fits != in_time || more < least || (more == least && less_loaded(*candidate, *best));
    if (!better) continue;
    best = candidate;
    least = more;
    in_time = fits;
  }
  if (best == nullptr) return {least_full->id, "all instances are at capacity: the least"};
  return {best->id, "the least added energy"};
}

}  // namespace wattle::policy
