#include "policy/routing/least_energy.h"

#include <algorithm>

#include "model/classifier.h"
#include "policy/routing/least_loaded.h"

namespace wattle::policy {

namespace {

/// Energy of a request at an instance that goes on as it is: its prompt by itself, then what one more member adds to
/// each step, for as many steps as it has tokens. In mW x s: it orders instances and is booked nowhere.
double by_steps(const InstanceView& view, const Request& request) {
  const LatencyModel& latency = *view.spec->beliefs.latency;
  const PowerModel& power = *view.spec->beliefs.power;
  const MegaHertz clock = view.clock_commanded > MegaHertz{0} ? view.clock_commanded : view.spec->gpu.clock_max;
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

}  // namespace

bool overfull(const InstanceView& view, const Request& request, Instant now) {
  const LoadProfile* profile = view.spec->beliefs.load;
  if (profile == nullptr || view.assigned_requests == 0) return false;
  const double most = profile->max_load_per_s(request.request_class, view.spec->gpu.clock_max);
  return !(most > 0.0) || view.load.at(now) + LoadShare::of_one(most) > 1.0;
}

double added_energy(const InstanceView& view, const Request& request, Instant now) {
  const Beliefs& beliefs = view.spec->beliefs;
  if (beliefs.load != nullptr) {
    // Its load in requests of this class: what it has takes as much of the instance as so many of them would.
    const double most = beliefs.load->max_load_per_s(request.request_class, view.spec->gpu.clock_max);
    if (!(most > 0.0)) return 0.0;
    const MegaHertz clock = view.clock_commanded > MegaHertz{0} ? view.clock_commanded : view.spec->gpu.clock_max;
    const double one = 1.0 / LoadShare::kMemory.seconds();
    const double load = view.load.at(now) * most;
    const Watts more = beliefs.load->at(request.request_class, load + one, clock).power;
    return (more - beliefs.load->at(request.request_class, load, clock).power).value() / one;
  }
  return beliefs.power != nullptr && beliefs.latency != nullptr ? by_steps(view, request) : 0.0;
}

RouteDecision LeastEnergy::route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                                 RandomStream&) {
  const InstanceView* best = nullptr;
  double least = 0.0;
  for (const InstanceView* candidate : candidates) {
    if (overfull(*candidate, request, now)) continue;
    const double added = added_energy(*candidate, request, now);
    if (best != nullptr && (added > least || (added == least && !less_loaded(*candidate, *best)))) continue;
    best = candidate;
    least = added;
  }
  if (best == nullptr) return {kNoInstance, "every instance has what it carries within its objectives"};
  return {best->id, "the least added energy"};
}

}  // namespace wattle::policy
