#include "control/dispatcher.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace wattle::control {

namespace {

/// What happens where routing is off or only shadowed: fewest assigned requests, lowest id between equals.
InstanceId least_assigned(std::span<const InstanceView* const> candidates) {
  const auto* best = *std::ranges::min_element(candidates, {}, &InstanceView::assigned_requests);
  return best->id;
}

}  // namespace

Dispatcher::Dispatcher(std::vector<InstanceView> instances, DispatchPolicies policies, std::uint64_t seed,
                       DispatchPort& port, journal::Sink& sink)
    : instances_(std::move(instances)),
      gone_(instances_.size(), false),
      policies_(std::move(policies)),
      prefill_random_(seed, "routing.prefill"),
      decode_random_(seed, "routing.decode"),
      port_(port),
      sink_(sink) {
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    WATTLE_CHECK(instances_[i].id.value() == static_cast<std::int32_t>(i), "instance ids are their positions");
  }
  rebuild_candidates();
  const auto listen = [this](const auto& slot) {
    policy::Policy* policy = slot.policy.get();
    if (policy == nullptr || slot.mode == Mode::Off) return;
    if (std::ranges::find(observers_, policy, &Observer::policy) != observers_.end()) return;
    const EventKinds kinds = policy->observes();
    if (std::bit_cast<std::uint32_t>(kinds) != 0) observers_.push_back({policy, kinds});
  };
  listen(policies_.admission);
  listen(policies_.queueing);
  listen(policies_.route_prefill);
  listen(policies_.route_decode);
  for (const InstanceView& view : instances_) observe(event::Joined{view}, Instant());
}

InstanceView& Dispatcher::at(InstanceId id) {
  WATTLE_CHECK(id.value() >= 0 && static_cast<std::size_t>(id.value()) < instances_.size(), "a known instance");
  return instances_[static_cast<std::size_t>(id.value())];
}

void Dispatcher::rebuild_candidates() {
  prefill_candidates_.clear();
  decode_candidates_.clear();
  for (const auto& view : instances_) {
    if (!view.accepting) continue;
    (view.spec->role == Role::Decode ? decode_candidates_ : prefill_candidates_).push_back(&view);
  }
}

void Dispatcher::observe(const Event& event, Instant now) {
  for (const Observer& observer : observers_) {
    if (observer.kinds.has(event)) observer.policy->observe(event, now);
  }
}

AdmissionDecision Dispatcher::ask_admission(const Request& request, std::int64_t held_before, Instant now) {
  auto& slot = policies_.admission;
  if (!slot.policy || slot.mode == Mode::Off) return {};
  const auto decision = slot.policy->admit(request, FleetSnapshot{now, instances_, held_before, counts_.in_flight});
  sink_.decision({now, journal::DecisionKind::Admission, slot.mode, request.id, kNoInstance,
                  static_cast<std::int64_t>(decision.verdict), decision.reason});
  return slot.mode == Mode::Enforce ? decision : AdmissionDecision{};
}

void Dispatcher::arrive(const Request& arrived, Instant now) {
  ++counts_.arrived;
  Request request = arrived;
  if (policies_.length) {
    const auto said = policies_.length->answer(arrived);
    request.predicted_output_tokens = said.tokens;
    if (said.fallback != nullptr) {
      sink_.decision(
          {now, journal::DecisionKind::Length, Mode::Enforce, request.id, kNoInstance, said.tokens, said.fallback});
    }
  }
  if (!observers_.empty()) observe(event::Arrived{request}, now);
  const auto decision = ask_admission(request, counts_.held, now);
  if (decision.verdict == Admission::Reject) {
    ++counts_.refused;
    port_.refuse(request, decision.reason, now);
    return;
  }
  const bool others_wait = !held_.empty();
  if (decision.verdict == Admission::Admit && !others_wait && try_start(request, decision.instance, now)) return;
  hold(request, now);
  // Nobody overtakes the queue's order: an admitted newcomer lets those before it try first.
  if (decision.verdict == Admission::Admit && others_wait) retry_held(now);
}

void Dispatcher::hold(const Request& request, Instant now) {
  auto& slot = policies_.queueing;
  std::int64_t key = 0;
  if (slot.policy && slot.mode != Mode::Off) {
    key = slot.policy->key(request, now);
    sink_.decision({now, journal::DecisionKind::Queueing, slot.mode, request.id, kNoInstance, key, ""});
    if (slot.mode != Mode::Enforce) key = 0;
  }
  held_.push_back({key, held_sequence_++, request});
  std::ranges::push_heap(held_, LeavesLater{});
  counts_.held = static_cast<std::int64_t>(held_.size());
}

InstanceId Dispatcher::pick(journal::DecisionKind kind, const Request& request, Instant now) {
  const bool decode = kind == journal::DecisionKind::RouteDecode;
  const auto& candidates = decode ? decode_candidates_ : prefill_candidates_;
  auto& slot = decode ? policies_.route_decode : policies_.route_prefill;
  if (candidates.empty()) return kNoInstance;
  if (!slot.policy || slot.mode == Mode::Off) return least_assigned(candidates);
  const auto decision = slot.policy->route(request, candidates, now, decode ? decode_random_ : prefill_random_);
  sink_.decision({now, kind, slot.mode, request.id, decision.instance, decision.instance.value(), decision.reason});
  if (slot.mode != Mode::Enforce) return least_assigned(candidates);
  WATTLE_CHECK(decision.instance == kNoInstance ||
                   std::ranges::binary_search(candidates, decision.instance, {}, &InstanceView::id),
               "a routing policy picks one of its candidates");
  return decision.instance;
}

void Dispatcher::assign(InstanceId id, const Request& request, int sign) {
  auto& view = at(id);
  view.assigned_requests += sign;
  view.assigned_prompt_tokens += sign * request.prompt_tokens;
}

bool Dispatcher::try_start(const Request& request, InstanceId bound, Instant now) {
  WATTLE_CHECK(bound == kNoInstance || std::ranges::binary_search(prefill_candidates_, bound, {}, &InstanceView::id),
               "admission binds to an instance that accepts first legs");
  const InstanceId id = bound != kNoInstance ? bound : pick(journal::DecisionKind::RoutePrefill, request, now);
  if (id == kNoInstance) return false;
  assign(id, request, +1);
  const bool fresh = flights_.emplace(request.id.value(), Flight{request, id, kNoInstance, false}).second;
  WATTLE_CHECK(fresh, "a request id is dispatched once");
  ++counts_.in_flight;
  if (!observers_.empty()) observe(event::Started{request, at(id)}, now);
  port_.start(request, id, now);
  return true;
}

void Dispatcher::retry_held(Instant now) {
  // A port that calls back from start or refuse must not start a second round inside this one.
  if (retrying_) {
    retry_again_ = true;
    return;
  }
  retrying_ = true;
  do {
    retry_again_ = false;
    while (!held_.empty() && release_first(now)) {
    }
  } while (retry_again_);
  retrying_ = false;
}

bool Dispatcher::release_first(Instant now) {
  const Held first = held_.front();
  const auto decision = ask_admission(first.request, counts_.held - 1, now);
  if (decision.verdict == Admission::Hold) return false;
  if (decision.verdict == Admission::Admit && prefill_candidates_.empty()) return false;
  std::ranges::pop_heap(held_, LeavesLater{});
  held_.pop_back();
  counts_.held = static_cast<std::int64_t>(held_.size());
  if (decision.verdict == Admission::Reject) {
    ++counts_.refused;
    port_.refuse(first.request, decision.reason, now);
    return true;
  }
  if (try_start(first.request, decision.instance, now)) return true;
  held_.push_back(first);  // routing declined: back to its old place
  std::ranges::push_heap(held_, LeavesLater{});
  counts_.held = static_cast<std::int64_t>(held_.size());
  return false;
}

void Dispatcher::first_token(RequestId id, Instant now) {
  const auto found = flights_.find(id.value());
  if (found == flights_.end()) return;
  const Flight& flight = found->second;
  observe(event::FirstToken{flight.request, at(flight.decode == kNoInstance ? flight.prefill : flight.decode)}, now);
}

void Dispatcher::prefill_done(RequestId id, Instant now) {
  const auto found = flights_.find(id.value());
  if (found != flights_.end() && std::exchange(found->second.prefilling, false)) {
    return assign(found->second.prefill, found->second.request, -1);
  }
  bind(id, false, now);
}

void Dispatcher::bind(RequestId id, bool prefilling, Instant now) {
  const auto found = flights_.find(id.value());
  if (found == flights_.end()) return;                         // cancelled meanwhile
  if (found->second.decode != kNoInstance) return;             // told twice
  const Flight flight = found->second;                         // a copy: the port may call back and erase it
  if (at(flight.prefill).spec->role != Role::Prefill) return;  // colocated: there is no second leg
  const InstanceId decode = pick(journal::DecisionKind::RouteDecode, flight.request, now);
  if (!prefilling || decode == kNoInstance) assign(flight.prefill, flight.request, -1);
  if (decode == kNoInstance) {
    flights_.erase(found);
    --counts_.in_flight;
    ++counts_.refused;
    port_.refuse(flight.request, "no decode instance accepts requests", now);
    retry_held(now);
    return;
  }
  found->second.decode = decode;
  found->second.prefilling = prefilling;
  assign(decode, flight.request, +1);
  port_.hand_over(flight.request, flight.prefill, decode, now);
}

void Dispatcher::left(const Outcome& outcome, Instant now) {
  const auto found = flights_.find(outcome.request.id.value());
  if (found == flights_.end()) return;
  const Flight& flight = found->second;
  assign(flight.decode == kNoInstance ? flight.prefill : flight.decode, flight.request, -1);
  if (flight.prefilling) assign(flight.prefill, flight.request, -1);
  flights_.erase(found);
  --counts_.in_flight;
  ++counts_.left;
  if (!observers_.empty()) observe(event::Left{outcome}, now);
  if (policies_.length) policies_.length->observe(outcome);
  retry_held(now);
}

bool Dispatcher::cancel_held(RequestId id, Instant now) {
  const auto found = std::ranges::find_if(held_, [id](const Held& h) { return h.request.id == id; });
  if (found == held_.end()) return false;
  held_.erase(found);
  std::ranges::make_heap(held_, LeavesLater{});
  counts_.held = static_cast<std::int64_t>(held_.size());
  ++counts_.left;
  retry_held(now);  // it may have been the one that blocked those behind it
  return true;
}

void Dispatcher::report(const StepReport& report) {
  auto& view = at(report.instance);
  view.step = report;
  if (report.clock != MegaHertz{0}) view.clock_commanded = report.clock;
  view.telemetry = report.shape.idle() ? Telemetry::Idle : Telemetry::Fresh;
}

void Dispatcher::set_accepting(InstanceId id, bool accepting, Instant now) {
  at(id).accepting = accepting;
  const auto i = static_cast<std::size_t>(id.value());
  if (accepting && gone_[i]) {
    gone_[i] = false;
    observe(event::Joined{at(id)}, now);
  }
  rebuild_candidates();
  if (accepting) retry_held(now);
}

InstanceId Dispatcher::add_instance(InstanceView view, Instant now) {
  view.id = InstanceId(static_cast<std::int32_t>(instances_.size()));
  const bool accepting = view.accepting;
  instances_.push_back(view);
  gone_.push_back(false);
  rebuild_candidates();  // the vector may have moved
  observe(event::Joined{instances_.back()}, now);
  if (accepting) retry_held(now);
  return InstanceId(static_cast<std::int32_t>(instances_.size()) - 1);
}

void Dispatcher::remove_instance(InstanceId id, Instant now) {
  set_accepting(id, false, now);
  gone_[static_cast<std::size_t>(id.value())] = true;
  observe(event::Gone{at(id)}, now);
}

}  // namespace wattle::control
