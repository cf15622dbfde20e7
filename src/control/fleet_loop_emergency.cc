// The emergency ladder of a fleet: see control/emergency.h.
#include <algorithm>
#include <utility>

#include "control/fleet_loop.h"
#include "model/believed_load.h"
#include "policy/routing/least_energy.h"

namespace wattle::control {

namespace {

void rung(journal::Sink& sink, Instant now, Mode mode, RequestId request, InstanceId instance, journal::Rung step,
          const char* reason) {
  sink.decision(
      {now, journal::DecisionKind::Emergency, mode, request, instance, static_cast<std::int64_t>(step), reason});
}

constexpr RequestId kNoRequest{-1};

}  // namespace

/// The request has its first token or has left: it no longer waits at this instance.
void FleetLoop::begun(const Entry& entry) {
  if (!watches()) return;
  if (const InstanceView* at = find(entry.prefill)) {
    std::erase(unbegun_[static_cast<std::size_t>(at - instances_.data())], entry.request.id);
  }
}

Instant FleetLoop::next_tick() const {
  if (!watches()) return Instant::never();
  const bool any = counts_.held > 0 || std::ranges::any_of(unbegun_, [](const auto& ids) { return !ids.empty(); });
  return any ? next_look_ : Instant::never();
}

bool FleetLoop::will_squash() const {
  const EmergencyOptions& options = options_.emergency;
  if (options.mode != Mode::Enforce || !options.squashes()) return false;
  return std::ranges::any_of(requests_, [this](const auto& one) {
    const Entry& entry = one.second;
    if (entry.held < 0) return false;
    return first_token_due(entry.request, objectives_, shown(kNoInstance), MegaHertz{0}) != Instant::never();
  });
}

void FleetLoop::tick(Instant now) {
  refuse_unready(now);
  if (!watches() || now < next_look_) return;
  ++round_;
  next_look_ = now + options_.emergency.period;
  // Loops over ids, because an action on one instance may change the list.
  std::vector<InstanceId> ids;
  for (const InstanceView& view : instances_) ids.push_back(view.id);
  for (const InstanceId id : ids) {
    if (const InstanceView* view = find(id)) look_at(*view, now);
  }
  look_at_held(now);
}

/// Requests whose prefill has not begun: the newest ones, as many as the instance reports as waiting.
std::vector<RequestId> FleetLoop::waiting_at(const InstanceView& at) const {
  const auto& all = unbegun_[static_cast<std::size_t>(&at - instances_.data())];
  const auto n = std::min(all.size(), static_cast<std::size_t>(std::max(at.step.waiting_requests, 0)));
  return {all.end() - static_cast<std::ptrdiff_t>(n), all.end()};
}

/// Those of `ids` that are predicted to be late if served in this order after the instance's current prompts.
std::vector<RequestId> FleetLoop::late(const InstanceView& at, const std::vector<RequestId>& ids, MegaHertz clock,
                                       Instant now) const {
  std::vector<RequestId> late;
  std::int64_t tokens = at.step.shape.prefill_tokens;
  for (const RequestId id : ids) {
    const Request& request = requests_.at(id.value()).request;
    tokens += request.prompt_tokens;
    const Instant due = first_token_due(request, objectives_, at, clock);
    if (due != Instant::never() && now + prompt_time(at, tokens, request, clock, now) > due) late.push_back(id);
  }
  return late;
}

void FleetLoop::look_at(const InstanceView& at, Instant now) {
  const auto i = static_cast<std::size_t>(&at - instances_.data());
  if (unbegun_[i].empty()) return;
  const InstanceId id = at.id;
  port_.refresh(id, now);
  const auto waiting = waiting_at(at);
  if (late(at, waiting, set_clock(at), now).empty()) return;
  auto by_deadline = waiting;
  const auto due = [&](RequestId r) {
    return first_token_due(requests_.at(r.value()).request, objectives_, at, set_clock(at));
  };
  std::ranges::stable_sort(by_deadline, {}, due);
  const Mode mode = options_.emergency.mode;
  const bool act = mode == Mode::Enforce;
  if (by_deadline != waiting) {
    rung(sink_, now, mode, kNoRequest, id, journal::Rung::Reorder, "a predicted miss: by deadline");
    if (act) {
      for (const RequestId r : by_deadline) withdraw(r, {Withdrawal::Again, id}, now);
    }
    return;
  }
  const MegaHertz highest = at.spec->gpu.clock_max;
  const bool boosted = now < boosted_[i];
  boosted_[i] = now + options_.emergency.boost;
  if (act) port_.boost(id, boosted_[i], now);
  if (!boosted) {
    rung(sink_, now, mode, kNoRequest, id, journal::Rung::Boost, "a predicted miss in spite of the order");
    return;
  }
  for (const RequestId r : late(at, waiting, highest, now)) {
    const auto found = requests_.find(r.value());
    if (found == requests_.end()) continue;
    const Request& request = found->second.request;
    if (const InstanceId sibling = in_time(found->second, id, now); sibling != kNoInstance) {
      rung(sink_, now, mode, r, sibling, journal::Rung::Resteer, "a predicted miss at the highest clock");
      if (act) withdraw(r, {Withdrawal::Again, sibling}, now);
    } else if (options_.emergency.has_waited_too_long(request.arrival, due(r), now)) {
      rung(sink_, now, mode, r, id, journal::Rung::Squash, "no instance is in time");
      if (act) withdraw(r, {Withdrawal::Squash, kNoInstance}, now);
    }
  }
}

/// Another instance of the same or a larger pool with a predicted first token in time; the one with the fewest
/// requests.
InstanceId FleetLoop::in_time(const Entry& entry, InstanceId but, Instant now) {
  const Request& request = entry.request;
  const InstanceView* best = nullptr;
  const auto consider = [&](const std::vector<const InstanceView*>& candidates) {
    for (const InstanceView* candidate : fit_for(entry, candidates)) {
      if (candidate->id == but || policy::overfull(*candidate, request, now)) continue;
      port_.refresh(candidate->id, now);
      const MegaHertz highest = candidate->spec->gpu.clock_max;
      const std::int64_t tokens =
          candidate->step.shape.prefill_tokens + candidate->step.waiting_prompt_tokens + request.prompt_tokens;
      const Instant due = first_token_due(request, objectives_, *candidate, highest);
      if (now + prompt_time(*candidate, tokens, request, highest, now) > due) continue;
      if (best == nullptr || candidate->assigned_requests < best->assigned_requests) best = candidate;
    }
  };
  if (!pools_.several()) {
    consider(candidates_.prefill);
  } else {
    for (const PoolId pool : pools_.larger(request.pool)) {
      consider(by_pool_[static_cast<std::size_t>(pool.value())].prefill);
      if (best != nullptr) break;
    }
  }
  return best == nullptr ? kNoInstance : best->id;
}

/// Requests that are not assigned to an instance.
void FleetLoop::look_at_held(Instant now) {
  const Mode mode = options_.emergency.mode;
  std::vector<RequestId> squashed;
  bool misses = false;
  for (const Line& line : lines_) {
    for (const Held& held : line) {
      const auto found = requests_.find(held.id.value());
      if (found == requests_.end() || found->second.held != held.sequence) continue;
      const Request& request = found->second.request;
      const InstanceView& any = candidates_.prefill.empty() ? shown(kNoInstance) : *candidates_.prefill.front();
      const MegaHertz highest = any.spec->gpu.clock_max;
      const Instant due = first_token_due(request, objectives_, any, highest);
      if (due == Instant::never() || now + prompt_time(any, request.prompt_tokens, request, highest, now) <= due)
        continue;
      misses = true;
      if (options_.emergency.has_waited_too_long(request.arrival, due, now)) squashed.push_back(held.id);
    }
  }
  if (misses != by_deadline_) {
    if (misses)
      rung(sink_, now, mode, kNoRequest, kNoInstance, journal::Rung::Reorder, "a predicted miss: by deadline");
    by_deadline_ = misses && mode == Mode::Enforce;
    line_up();
  }
  for (const RequestId id : squashed) {
    const auto found = requests_.find(id.value());
    if (found == requests_.end() || found->second.held < 0) continue;
    rung(sink_, now, mode, id, kNoInstance, journal::Rung::Squash, "it has waited for too long");
    if (mode != Mode::Enforce) continue;
    --counts_.held;
    ++left_in_lines_;
    refuse(id, Refusal::Squashed, "squashed: the service is overloaded, try again", now);
  }
  if (!squashed.empty()) retry_held(now);
}

void FleetLoop::withdraw(RequestId id, Withdrawal withdrawal, Instant now) {
  const auto found = requests_.find(id.value());
  if (found == requests_.end() || found->second.withdrawal.what != Withdrawal::None) return;
  if (displacing_ == id) return;                    // it is being preempted, and its engine will report that
  if (found->second.decode != kNoInstance) return;  // a decode instance was assigned together with the prefill instance
  found->second.withdrawal = withdrawal;
  const Entry entry = found->second;  // a copy: the port may call back and erase it
  port_.withdraw(entry.request, entry.tag, entry.prefill, now);
}

void FleetLoop::taken_back(Entry& entry, const char* reason, Instant now) {
  begun(entry);
  each_place(entry, [&](InstanceId id) { assign(id, entry, -1, now); });
  count_in_pool(entry, -1);
  const InstanceId from = std::exchange(entry.prefill, kNoInstance);
  const InstanceId decode = std::exchange(entry.decode, kNoInstance);
  entry.prefilling = false;
  if (observers_.empty()) return;
  Outcome back;  // policies see it leave its instance; it may start again
  back.request = entry.request;
  back.fate = Fate::Cancelled;
  back.reason = reason;
  back.dispatched = entry.dispatched;
  back.left = now;
  back.prefill_instance = from;
  back.decode_instance = decode;
  observe(event::Left{back}, now);
}

void FleetLoop::withdrawn(RequestId id, bool taken, Instant now) {
  const auto found = requests_.find(id.value());
  if (found == requests_.end()) return;
  Entry& entry = found->second;
  if (displacing_ == id) {
    if (taken) return displaced(id, 0, now);
    displacing_ = RequestId(-1);
    return perhaps_preempt(now);  // the next one
  }
  const Withdrawal withdrawal = std::exchange(entry.withdrawal, {});
  if (!taken || withdrawal.what == Withdrawal::None) return;
  ++round_;
  runs_no_more(entry);
  taken_back(entry, "taken back before it began", now);
  start_again(entry, withdrawal, now);
}

void FleetLoop::start_again(Entry& entry, const Withdrawal& withdrawal, Instant now) {
  const RequestId id = entry.request.id;
  const InstanceView* to = find(withdrawal.to);
  const bool stands = to != nullptr && to->accepting;
  if (withdrawal.what == Withdrawal::Squash) {
    refuse(id, Refusal::Squashed, "squashed: the service is overloaded, try again", now);
  } else if (!entry.answered && pools_.sheds_all(entry.request.request_class)) {
    shed_one(id, "the plan serves nothing of its class", now);
    refuse(id, Refusal::Squashed, kShed, now);
  } else if (const bool none = unready(entry); none && options_.unready_wait == Span()) {
    refuse(id, Refusal::NotReady, kUnready, now);
  } else if (none || !try_start(entry, {stands ? withdrawal.to : kNoInstance, "it is in time there"}, now)) {
    hold(entry, now);
  }
  retry_held(now);
}

void FleetLoop::bounced(RequestId id, InstanceId from, Instant now) {
  const auto found = requests_.find(id.value());
  if (found == requests_.end() || found->second.prefill == kNoInstance) return;
  Entry& entry = found->second;
  entry.avoided = from;
  sink_.decision(
      {now, journal::DecisionKind::Queueing, Mode::Enforce, id, from, 0, "its instance was lost: once more"});
  if (displacing_ == id) return displaced(id, 0, now);
  ++round_;
  const Withdrawal withdrawal = std::exchange(entry.withdrawal, {});
  runs_no_more(entry);
  taken_back(entry, "its instance was lost", now);
  start_again(entry, withdrawal, now);
}

}  // namespace wattle::control
