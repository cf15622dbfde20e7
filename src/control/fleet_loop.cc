#include "control/fleet_loop.h"

#include <algorithm>
#include <array>
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

FleetLoop::FleetLoop(std::vector<InstanceView> instances, DispatchPolicies policies, std::uint64_t seed,
                     const FleetLoopOptions& options, RequestPort& port, journal::Sink& sink)
    : instances_(std::move(instances)),
      gone_(instances_.size(), false),
      policies_(std::move(policies)),
      prefill_random_(seed, "routing.prefill"),
      decode_random_(seed, "routing.decode"),
      options_(options),
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

InstanceView& FleetLoop::at(InstanceId id) {
  WATTLE_CHECK(id.value() >= 0 && static_cast<std::size_t>(id.value()) < instances_.size(), "a known instance");
  return instances_[static_cast<std::size_t>(id.value())];
}

void FleetLoop::rebuild_candidates() {
  prefill_candidates_.clear();
  decode_candidates_.clear();
  for (const auto& view : instances_) {
    if (!view.accepting) continue;
    (view.spec->role == Role::Decode ? decode_candidates_ : prefill_candidates_).push_back(&view);
  }
  refreshed_.resize(instances_.size(), -1);
  const auto colocated = [](const InstanceView* view) { return view->spec->role == Role::Colocated; };
  ready_ = std::ranges::any_of(prefill_candidates_, colocated) ||
           (!prefill_candidates_.empty() && !decode_candidates_.empty());
}

void FleetLoop::observe(const Event& event, Instant now) {
  for (const Observer& observer : observers_) {
    if (observer.kinds.has(event)) observer.policy->observe(event, now);
  }
}

/// Brings those up to date that have not been looked at since something happened: nobody pays for a view nobody reads.
void FleetLoop::refresh(std::span<const InstanceView* const> views, Instant now) {
  for (const InstanceView* view : views) {
    auto& refreshed = refreshed_[static_cast<std::size_t>(view->id.value())];
    if (std::exchange(refreshed, round_) != round_) port_.refresh(view->id, now);
  }
}

AdmissionDecision FleetLoop::ask_admission(const Request& request, std::int64_t held_before, Instant now) {
  auto& slot = policies_.admission;
  if (!slot.policy || slot.mode == Mode::Off) return {};
  if (slot.policy->reads_steps()) {
    for (const auto& view : instances_) refresh(std::array{&view}, now);
  }
  const auto decision =
      slot.policy->admit(request, FleetSnapshot{now, instances_, held_before, counts_.in_flight - 1 - held_before});
  sink_.decision({now, journal::DecisionKind::Admission, slot.mode, request.id, kNoInstance,
                  static_cast<std::int64_t>(decision.verdict), decision.reason});
  return slot.mode == Mode::Enforce ? decision : AdmissionDecision{};
}

void FleetLoop::arrive(const Request& arrived, Tag tag, Instant now) {
  ++round_;
  counts_.arrive();
  tokens_.prompt += arrived.prompt_tokens;
  const auto [place, fresh] = requests_.try_emplace(arrived.id.value());
  WATTLE_CHECK(fresh, "request ids are unique");
  Request& request = place->second.request;
  request = arrived;
  place->second.tag = tag;
  place->second.stated_output_tokens = arrived.predicted_output_tokens;
  if (options_.refuse_unready && !ready_) return refuse(request.id, Refusal::NotReady, "no instance is ready", now);
  if (counts_.in_flight > options_.max_requests) {
    return refuse(request.id, Refusal::Busy, "the gateway's queue is full", now);
  }
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
  if (decision.verdict == Admission::Reject) return refuse(request.id, Refusal::Busy, decision.reason, now);
  const bool others_wait = !held_.empty();
  if (decision.verdict == Admission::Admit && !others_wait && try_start(arrived.id, decision.instance, now)) return;
  hold(request, now);
  // Nobody overtakes the queue's order: an admitted newcomer lets those before it try first.
  if (decision.verdict == Admission::Admit && others_wait) retry_held(now);
}

void FleetLoop::hold(const Request& request, Instant now) {
  auto& slot = policies_.queueing;
  std::int64_t key = 0;
  if (slot.policy && slot.mode != Mode::Off) {
    key = slot.policy->key(request, now);
    sink_.decision({now, journal::DecisionKind::Queueing, slot.mode, request.id, kNoInstance, key, ""});
    if (slot.mode != Mode::Enforce) key = 0;
  }
  held_.push_back({key, held_sequence_++, request.id});
  std::ranges::push_heap(held_, LeavesLater{});
  counts_.held = static_cast<std::int64_t>(held_.size());
}

InstanceId FleetLoop::pick(journal::DecisionKind kind, const Request& request, Instant now) {
  const bool decode = kind == journal::DecisionKind::RouteDecode;
  const auto& candidates = decode ? decode_candidates_ : prefill_candidates_;
  auto& slot = decode ? policies_.route_decode : policies_.route_prefill;
  if (candidates.empty()) return kNoInstance;
  if (!slot.policy || slot.mode == Mode::Off) return least_assigned(candidates);
  if (slot.policy->reads_steps()) refresh(candidates, now);
  const auto decision = slot.policy->route(request, candidates, now, decode ? decode_random_ : prefill_random_);
  sink_.decision({now, kind, slot.mode, request.id, decision.instance, decision.instance.value(), decision.reason});
  if (slot.mode != Mode::Enforce) return least_assigned(candidates);
  WATTLE_CHECK(decision.instance == kNoInstance ||
                   std::ranges::binary_search(candidates, decision.instance, {}, &InstanceView::id),
               "a routing policy picks one of its candidates");
  return decision.instance;
}

void FleetLoop::assign(InstanceId id, const Request& request, int sign) {
  auto& view = at(id);
  view.assigned_requests += sign;
  view.assigned_prompt_tokens += sign * request.prompt_tokens;
}

bool FleetLoop::try_start(RequestId request, InstanceId bound, Instant now) {
  WATTLE_CHECK(bound == kNoInstance || std::ranges::binary_search(prefill_candidates_, bound, {}, &InstanceView::id),
               "admission binds to an instance that accepts first legs");
  Entry& entry = requests_.at(request.value());
  const InstanceId id = bound != kNoInstance ? bound : pick(journal::DecisionKind::RoutePrefill, entry.request, now);
  if (id == kNoInstance) return false;
  assign(id, entry.request, +1);
  entry.dispatched = now;
  entry.prefill = id;
  if (!observers_.empty()) observe(event::Started{entry.request, at(id)}, now);
  port_.start(Request(entry.request), entry.tag, id, now);  // a copy: the port may call back and erase it
  if (options_.both_legs_at_once) bind(request, true, now);
  return true;
}

void FleetLoop::retry_held(Instant now) {
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

bool FleetLoop::release_first(Instant now) {
  const Held first = held_.front();
  const Request& request = requests_.at(first.id.value()).request;
  const auto decision = ask_admission(request, counts_.held - 1, now);
  if (decision.verdict == Admission::Hold) return false;
  if (decision.verdict == Admission::Admit && prefill_candidates_.empty()) return false;
  std::ranges::pop_heap(held_, LeavesLater{});
  held_.pop_back();
  counts_.held = static_cast<std::int64_t>(held_.size());
  if (decision.verdict == Admission::Reject) {
    refuse(first.id, Refusal::Busy, decision.reason, now);
    return true;
  }
  if (try_start(first.id, decision.instance, now)) return true;
  held_.push_back(first);  // routing declined: back to its old place
  std::ranges::push_heap(held_, LeavesLater{});
  counts_.held = static_cast<std::int64_t>(held_.size());
  return false;
}

void FleetLoop::first_token(RequestId id, Instant now) {
  const auto found = requests_.find(id.value());
  if (found == requests_.end() || found->second.prefill == kNoInstance) return;
  const Entry& entry = found->second;
  const InstanceId instance = entry.decode == kNoInstance ? entry.prefill : entry.decode;
  const event::FirstToken token{entry.request, at(instance)};
  const auto reads = [&](const Observer& o) { return o.kinds.has(token) && o.policy->reads_steps(); };
  if (std::ranges::any_of(observers_, reads)) port_.refresh(instance, now);
  observe(token, now);
}

void FleetLoop::prefill_done(RequestId id, Instant now) {
  ++round_;
  const auto found = requests_.find(id.value());
  if (found == requests_.end() || found->second.prefill == kNoInstance) return;  // cancelled meanwhile
  if (std::exchange(found->second.prefilling, false)) {
    return assign(found->second.prefill, found->second.request, -1);
  }
  bind(id, false, now);
}

void FleetLoop::bind(RequestId id, bool prefilling, Instant now) {
  const auto found = requests_.find(id.value());
  if (found == requests_.end()) return;  // left from within start()
  Entry& entry = found->second;
  if (entry.decode != kNoInstance) return;                    // said twice
  if (at(entry.prefill).spec->role != Role::Prefill) return;  // colocated: there is no second leg
  const InstanceId decode = pick(journal::DecisionKind::RouteDecode, entry.request, now);
  if (!prefilling || decode == kNoInstance) assign(entry.prefill, entry.request, -1);
  if (decode == kNoInstance) {
    refuse(id, Refusal::NotReady, "no decode instance accepts requests", now);
    retry_held(now);
    return;
  }
  entry.decode = decode;
  entry.prefilling = prefilling;
  assign(decode, entry.request, +1);
  port_.hand_over(Request(entry.request), entry.tag, entry.prefill, decode, now);
}

/// It no longer counts as held.
void FleetLoop::refuse(RequestId id, Refusal refusal, const char* reason, Instant now) {
  const auto node = requests_.extract(id.value());
  const Entry& entry = node.mapped();
  const Served served = port_.refuse(entry.request, entry.tag, refusal, reason, now);
  close(entry, served.first_token == Instant::never() ? Fate::Rejected : Fate::Failed, reason, served, now);
}

Outcome FleetLoop::close(const Entry& entry, Fate fate, const char* reason, const Served& served, Instant now) {
  Outcome outcome;
  outcome.request = entry.request;
  outcome.request.predicted_output_tokens = entry.stated_output_tokens;
  outcome.fate = fate;
  outcome.reason = reason;
  outcome.dispatched = entry.dispatched;
  outcome.prefill_start = served.prefill_start.value_or(entry.dispatched);
  outcome.first_token = served.first_token;
  outcome.left = now;
  outcome.output_tokens = served.output_tokens;
  outcome.preemptions = served.preemptions;
  outcome.prefill_instance = entry.prefill;
  outcome.decode_instance = entry.decode;
  if (entry.decode == kNoInstance && entry.prefill != kNoInstance && at(entry.prefill).spec->role == Role::Colocated) {
    outcome.decode_instance = entry.prefill;
  }
  static_cast<Charge&>(outcome) = served.charge;
  outcome.gaps_within_itl = served.gaps_within_itl;
  tokens_.output += served.output_tokens;
  counts_.leave(fate);
  sink_.outcome(outcome);
  return outcome;
}

std::optional<Tag> FleetLoop::leave(RequestId id, Fate fate, const char* reason, const Served& served, Instant now) {
  ++round_;
  const auto node = requests_.extract(id.value());
  if (node.empty()) return std::nullopt;
  const Entry& entry = node.mapped();
  if (entry.prefill == kNoInstance) {
    std::erase_if(held_, [id](const Held& h) { return h.id == id; });
    std::ranges::make_heap(held_, LeavesLater{});
    counts_.held = static_cast<std::int64_t>(held_.size());
    close(entry, fate, reason, served, now);
    retry_held(now);  // it may have been the one that blocked those behind it
    return entry.tag;
  }
  assign(entry.decode == kNoInstance ? entry.prefill : entry.decode, entry.request, -1);
  if (entry.prefilling) assign(entry.prefill, entry.request, -1);
  const Outcome outcome = close(entry, fate, reason, served, now);
  if (!observers_.empty()) observe(event::Left{outcome}, now);
  if (policies_.length) policies_.length->observe(outcome);
  retry_held(now);
  return entry.tag;
}

void FleetLoop::report(const StepReport& report) {
  auto& view = at(report.instance);
  view.step = report;
  if (report.clock != MegaHertz{0}) view.clock_commanded = report.clock;
  view.telemetry = report.shape.idle() ? Telemetry::Idle : Telemetry::Fresh;
}

void FleetLoop::set_accepting(InstanceId id, bool accepting, Instant now) {
  ++round_;
  const bool changes = std::exchange(at(id).accepting, accepting) != accepting;
  const auto i = static_cast<std::size_t>(id.value());
  if (accepting && gone_[i]) {
    gone_[i] = false;
    observe(event::Joined{at(id)}, now);
  }
  if (changes) rebuild_candidates();
  if (accepting) retry_held(now);
}

void FleetLoop::reroute(std::span<const PoolWeight> weights, Instant now) {
  ++round_;
  weights_.assign(weights.begin(), weights.end());
  retry_held(now);
}

InstanceId FleetLoop::add_instance(InstanceView view, Instant now) {
  view.id = InstanceId(static_cast<std::int32_t>(instances_.size()));
  const bool accepting = view.accepting;
  instances_.push_back(view);
  gone_.push_back(false);
  rebuild_candidates();  // the vector may have moved
  observe(event::Joined{instances_.back()}, now);
  if (accepting) retry_held(now);
  return InstanceId(static_cast<std::int32_t>(instances_.size()) - 1);
}

void FleetLoop::remove_instance(InstanceId id, Instant now) {
  set_accepting(id, false, now);
  gone_[static_cast<std::size_t>(id.value())] = true;
  observe(event::Gone{at(id)}, now);
}

}  // namespace wattle::control
