#include "control/dispatcher.h"

#include <algorithm>

#include "base/check.h"

namespace wattle::control {

namespace {

bool held_after(std::int64_t key_a, std::int64_t sequence_a, std::int64_t key_b, std::int64_t sequence_b) {
  return key_a != key_b ? key_a > key_b : sequence_a > sequence_b;
}

/// What happens where routing is off or only shadowed: fewest assigned requests, lowest id between equals.
InstanceId least_assigned(std::span<const InstanceView* const> candidates) {
  const auto* best = *std::ranges::min_element(candidates, {}, &InstanceView::assigned_requests);
  return best->id;
}

}  // namespace

Dispatcher::Dispatcher(std::vector<InstanceView> instances, DispatchPolicies policies, std::uint64_t seed,
                       DispatchPort& port, journal::Sink& sink)
    : instances_(std::move(instances)),
      policies_(std::move(policies)),
      random_(seed, "routing"),
      port_(port),
      sink_(sink) {
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    WATTLE_CHECK(instances_[i].id.value() == static_cast<std::int32_t>(i), "instance ids are their positions");
  }
  rebuild_candidates();
}

void Dispatcher::rebuild_candidates() {
  prefill_candidates_.clear();
  decode_candidates_.clear();
  for (const auto& view : instances_) {
    if (!view.accepting) continue;
    (view.role == Role::Decode ? decode_candidates_ : prefill_candidates_).push_back(&view);
  }
}

AdmissionDecision Dispatcher::ask_admission(const Request& request, Instant now) {
  auto& slot = policies_.admission;
  if (!slot.policy || slot.mode == Mode::Off) return {};
  const policy::QueueView queue{counts_.held, counts_.in_flight};
  const auto decision = slot.policy->admit(request, queue, FleetSnapshot{now, instances_});
  sink_.decision({now, journal::DecisionKind::Admission, slot.mode, request.id, kNoInstance,
                  static_cast<std::int64_t>(decision.verdict), decision.reason});
  return slot.mode == Mode::Enforce ? decision : AdmissionDecision{};
}

void Dispatcher::arrive(const Request& request, Instant now) {
  ++counts_.arrived;
  const auto decision = ask_admission(request, now);
  if (decision.verdict == Admission::Reject) {
    ++counts_.refused;
    port_.refuse(request, decision.reason, now);
    return;
  }
  if (decision.verdict == Admission::Admit && held_.empty() && try_start(request, now)) return;

  auto& queueing = policies_.queueing;
  const bool ordered = queueing.policy && queueing.mode == Mode::Enforce;
  held_.push_back({ordered ? queueing.policy->key(request, now) : 0, held_sequence_++, request});
  std::ranges::push_heap(held_,
                         [](const Held& a, const Held& b) { return held_after(a.key, a.sequence, b.key, b.sequence); });
  counts_.held = static_cast<std::int64_t>(held_.size());
  retry_held(now);
}

InstanceId Dispatcher::pick(Slot<policy::RoutingPolicy>& slot, journal::DecisionKind kind, const Request& request,
                            Instant now) {
  const auto& candidates = kind == journal::DecisionKind::RouteDecode ? decode_candidates_ : prefill_candidates_;
  if (candidates.empty()) return kNoInstance;
  if (!slot.policy || slot.mode == Mode::Off) return least_assigned(candidates);
  const auto decision = slot.policy->route(request, candidates, now, random_);
  sink_.decision({now, kind, slot.mode, request.id, decision.instance, decision.instance.value(), decision.reason});
  return slot.mode == Mode::Enforce ? decision.instance : least_assigned(candidates);
}

void Dispatcher::assign(InstanceId id, const Request& request, int sign) {
  auto& view = instances_[static_cast<std::size_t>(id.value())];
  view.assigned_requests += sign;
  view.assigned_prompt_tokens += sign * request.prompt_tokens;
}

bool Dispatcher::try_start(const Request& request, Instant now) {
  const InstanceId id = pick(policies_.route_prefill, journal::DecisionKind::RoutePrefill, request, now);
  if (id == kNoInstance) return false;
  assign(id, request, +1);
  flights_.emplace(request.id.value(), Flight{request, id, kNoInstance});
  ++counts_.in_flight;
  port_.start(request, id, now);
  return true;
}

void Dispatcher::retry_held(Instant now) {
  const auto after = [](const Held& a, const Held& b) { return held_after(a.key, a.sequence, b.key, b.sequence); };
  while (!held_.empty()) {
    const Request request = held_.front().request;
    const auto decision = ask_admission(request, now);
    if (decision.verdict == Admission::Hold) return;
    if (decision.verdict == Admission::Admit && prefill_candidates_.empty()) return;
    std::ranges::pop_heap(held_, after);
    held_.pop_back();
    counts_.held = static_cast<std::int64_t>(held_.size());
    if (decision.verdict == Admission::Reject) {
      ++counts_.refused;
      port_.refuse(request, decision.reason, now);
    } else {
      try_start(request, now);
    }
  }
}

void Dispatcher::prefill_done(RequestId id, Instant now) {
  const auto found = flights_.find(id.value());
  if (found == flights_.end()) return;  // cancelled meanwhile
  Flight& flight = found->second;
  const InstanceId decode = pick(policies_.route_decode, journal::DecisionKind::RouteDecode, flight.request, now);
  assign(flight.prefill, flight.request, -1);
  if (decode == kNoInstance) {
    const Request request = flight.request;
    flights_.erase(found);
    --counts_.in_flight;
    ++counts_.refused;
    port_.refuse(request, "no decode instance accepts requests", now);
    return;
  }
  flight.decode = decode;
  assign(decode, flight.request, +1);
  port_.hand_over(flight.request, flight.prefill, decode, now);
}

void Dispatcher::left(const Outcome& outcome, Instant now) {
  const auto found = flights_.find(outcome.request.id.value());
  if (found == flights_.end()) return;
  const Flight& flight = found->second;
  assign(flight.decode == kNoInstance ? flight.prefill : flight.decode, flight.request, -1);
  flights_.erase(found);
  --counts_.in_flight;
  ++counts_.left;
  if (policies_.admission.policy) policies_.admission.policy->observe(outcome, now);
  retry_held(now);
}

bool Dispatcher::cancel_held(RequestId id, Instant) {
  const auto found = std::ranges::find_if(held_, [id](const Held& h) { return h.request.id == id; });
  if (found == held_.end()) return false;
  held_.erase(found);
  std::ranges::make_heap(held_,
                         [](const Held& a, const Held& b) { return held_after(a.key, a.sequence, b.key, b.sequence); });
  counts_.held = static_cast<std::int64_t>(held_.size());
  ++counts_.left;
  return true;
}

void Dispatcher::report(const StepReport& report) {
  auto& view = instances_[static_cast<std::size_t>(report.instance.value())];
  view.step = report;
  view.telemetry = report.shape.idle() ? Telemetry::Idle : Telemetry::Fresh;
}

void Dispatcher::set_accepting(InstanceId id, bool accepting, Instant now) {
  instances_[static_cast<std::size_t>(id.value())].accepting = accepting;
  rebuild_candidates();
  if (accepting) retry_held(now);
}

}  // namespace wattle::control
