#include "policy/routing/least_energy.h"

#include <algorithm>

#include "model/believed_load.h"
#include "model/classifier.h"
#include "policy/routing/least_loaded.h"

namespace wattle::policy {

namespace {

/// Energy of a request at an instance that goes on as it is: its prompt by itself, then what one more member adds to
/// each step, for as many steps as it has tokens. In mW x s: it orders instances and is booked nowhere.
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

/// Within its objectives at the clock that it is set to, with this request.
bool carried_now(const InstanceView& view, const Request& request, Instant now) {
  const Beliefs& beliefs = view.spec->beliefs;
  if (beliefs.load == nullptr) return true;
  const double most = most_load_per_s(view, request.request_class);
  const double with_it = present_load_per_s(view, most, now) + 1.0 / LoadShare::kMemory.seconds();
  return with_it <= beliefs.load->max_load_per_s(request.request_class, set_clock(view));
}

}  // namespace

bool overfull(const InstanceView& view, const Request& request, Instant now) {
  if (view.spec->beliefs.load == nullptr || view.assigned_requests == 0) return false;
  const double most = most_load_per_s(view, request.request_class);
  return !(most > 0.0) || view.load.at(now) + LoadShare::of_one(most) > 1.0;
}

double added_energy(const InstanceView& view, const Request& request, Instant now) {
  const Beliefs& beliefs = view.spec->beliefs;
  if (beliefs.load != nullptr) {
    const ClassId of = request.request_class;
    const double most = most_load_per_s(view, of);
    if (!(most > 0.0)) return 0.0;
    const double one = 1.0 / LoadShare::kMemory.seconds();
    const double load = present_load_per_s(view, most, now);
    // A clock that carries the load within the objectives: below it there is no profile to read.
    const MegaHertz clock = beliefs.load->clock_for(of, load, set_clock(view));
    const Watts more = beliefs.load->at(of, load + one, beliefs.load->clock_for(of, load + one, clock)).power;
    return (more - beliefs.load->at(of, load, clock).power).value() / one;
  }
  return beliefs.power != nullptr && beliefs.latency != nullptr ? by_steps(view, request) : 0.0;
}

RouteDecision LeastEnergy::route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                                 RandomStream&) {
  const InstanceView* best = nullptr;
  const InstanceView* least_full = candidates.front();
  double least = 0.0;
  bool in_time = false;  // the best is, at the clock that it has
  for (const InstanceView* candidate : candidates) {
    if (candidate->load.at(now) < least_full->load.at(now)) least_full = candidate;
    if (overfull(*candidate, request, now)) continue;
    const bool fits = carried_now(*candidate, request, now);
    if (in_time && !fits) continue;
    const double added = added_energy(*candidate, request, now);
    const bool better =
        best == nullptr || fits != in_time || added < least || (added == least && less_loaded(*candidate, *best));
    if (!better) continue;
    best = candidate;
    least = added;
    in_time = fits;
  }
  if (best == nullptr) return {least_full->id, "every instance has what it carries within its objectives: the least"};
  return {best->id, "the least added energy"};
}

}  // namespace wattle::policy
