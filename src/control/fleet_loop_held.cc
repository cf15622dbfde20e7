// Requests that are held: in which order, and what releases them.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "control/fleet_loop.h"

namespace wattle::control {

void FleetLoop::hold(Entry& entry, Instant now) {
  auto& slot = policies_.queueing;
  const Request& request = entry.request;
  std::int64_t key = 0;
  if (slot.policy && slot.mode != Mode::Off) {
    key = policy_key(entry, now);
    sink_.decision({now, journal::DecisionKind::Queueing, slot.mode, request.id, kNoInstance, key, ""});
    if (slot.mode != Mode::Enforce) key = 0;
  }
  waits(now);
  if (counts_.held == 0) by_deadline_ = false;
  entry.held = held_sequence_;
  entry.held_since = now;
  entry.key = key;
  Line& line = line_of(entry);
  line.push_back({key_of(entry), held_sequence_++, request.id});
  std::ranges::push_heap(line, LeavesLater{});
  ++counts_.held;
}

/// In an emergency, deadlines take precedence over the queue policy.
std::int64_t FleetLoop::key_of(const Entry& entry) const {
  if (!by_deadline_) return entry.key;
  const InstanceView& any = candidates_.prefill.empty() ? shown(kNoInstance) : *candidates_.prefill.front();
  return first_token_due(entry.request, objectives_, any, any.spec->gpu.clock_max).ns();
}

void FleetLoop::retry_held(Instant now) {
  if (counts_.held == 0) return;
  // A port that calls back from start or refuse must not begin a nested pass.
  if (retrying_) {
    retry_again_ = true;
    return;
  }
  retrying_ = true;
  do {
    retry_again_ = false;
    stopped_.assign(lines_.size(), false);
    while (Line* line = next_line()) {
      const auto i = static_cast<std::size_t>(line - lines_.data());
      if (release_first(*line, now) || i >= stopped_.size()) continue;
      if (strict_) break;
      stopped_[i] = true;
    }
  } while (retry_again_);
  retrying_ = false;
  perhaps_preempt(now);
}

FleetLoop::Line& FleetLoop::line_of(const Entry& entry) {
  if (lines_.size() == 1) return lines_.front();
  const auto position = std::ranges::find(residencies_, entry.request.residency) - residencies_.begin();
  const std::size_t residencies = residencies_.size();
  const std::size_t residency = static_cast<std::size_t>(position) % residencies;
  const std::size_t models = models_differ_ ? static_cast<std::size_t>(options_.models) : 1;
  const std::size_t model = models_differ_ ? static_cast<std::size_t>(entry.model) : 0;
  const std::size_t kinds = some_undivided_ ? 2 : 1;
  const std::size_t kind = entry.request.undivided ? 1 : 0;
  const std::size_t classes = lines_.size() / models / residencies / kinds;
  const auto of = static_cast<std::size_t>(std::max(entry.request.request_class.value(), 0));
  return lines_[((model * residencies + residency) * kinds + kind) * classes + std::min(of, classes - 1)];
}

bool FleetLoop::has_place(const Request& request) const {
  const auto allows = [&](const InstanceView& view) { return request.residency.allows(view.spec->site); };
  return !request.residency.stated() || std::ranges::any_of(instances_, allows);
}

bool FleetLoop::unready(const Entry& entry) {
  return !ready(entry.model) || fit_for(entry, candidates_.prefill).empty();
}

void FleetLoop::refuse_unready(Instant now) {
  if (options_.unready_wait == Span::max() || counts_.held == 0) return;
  std::vector<RequestId> waited;
  for (const auto& [id, entry] : requests_) {
    const bool held = entry.held >= 0 && now - entry.held_since >= options_.unready_wait;
    if (held && unready(entry)) waited.push_back(entry.request.id);
  }
  std::ranges::sort(waited);
  for (const RequestId id : waited) {
    const auto found = requests_.find(id.value());
    if (found == requests_.end() || found->second.held < 0) continue;  // a port may call back
    --counts_.held;
    ++left_in_lines_;
    refuse(id, Refusal::NotReady, kUnready, now);
  }
  if (!waited.empty()) retry_held(now);
}

void FleetLoop::order_by_policy(bool policy, Instant now) {
  if (!policies_.queueing.policy || policy == ordered_by_policy()) return;
  ++round_;
  policies_.queueing.mode = policy ? Mode::Enforce : Mode::Shadow;
  preemptive_ = policy && policies_.queueing.policy->preemptive();
  strict_ = policy && policies_.queueing.policy->strict();
  running_.clear();
  for (auto& [id, entry] : requests_) {
    if (entry.held >= 0) entry.key = policy ? policy_key(entry, now) : 0;
    if (entry.prefill != kNoInstance) runs(entry, now);
  }
  line_up();
  retry_held(now);
}

void FleetLoop::drop_left(Line& line) {
  const auto left = [this](const Held& h) {
    const auto found = requests_.find(h.id.value());
    return found == requests_.end() || found->second.held != h.sequence;
  };
  while (!line.empty() && left(line.front())) {
    std::ranges::pop_heap(line, LeavesLater{});
    line.pop_back();
  }
}

FleetLoop::Line* FleetLoop::next_line() {
  Line* next = nullptr;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (stopped_[i]) continue;
    drop_left(lines_[i]);
    if (lines_[i].empty()) continue;
    if (next == nullptr || LeavesLater{}(next->front(), lines_[i].front())) next = &lines_[i];
  }
  return next;
}

void FleetLoop::line_up() {
  const auto models = static_cast<std::size_t>(models_differ_ ? options_.models : 1);
  const auto classes = static_cast<std::size_t>(pools_.several() ? classes_.size() : 1);
  std::vector<Line> before(models * residencies_.size() * classes * (some_undivided_ ? 2 : 1));
  before.swap(lines_);
  for (Line& line : before) {
    drop_left(line);
    for (const Held& held : line) {
      const auto found = requests_.find(held.id.value());
      if (found != requests_.end() && found->second.held == held.sequence) {
        line_of(found->second).push_back({key_of(found->second), held.sequence, held.id});
      }
    }
  }
  for (Line& line : lines_) std::ranges::make_heap(line, LeavesLater{});
  left_in_lines_ = 0;
  stopped_.assign(lines_.size(), false);
}

bool FleetLoop::release_first(Line& line, Instant now) {
  const Held first = line.front();
  Entry& entry = requests_.at(first.id.value());
  if (!has_place(entry.request)) {
    --counts_.held;
    refuse(first.id, Refusal::NotReady, kNoPlace, now);
    return true;
  }
  const auto decision = ask_admission(entry.request, counts_.held - 1, now);
  if (decision.verdict == Admission::Hold) return false;
  if (decision.verdict == Admission::Admit && unready(entry)) {
    return false;
  }
  std::ranges::pop_heap(line, LeavesLater{});
  line.pop_back();
  --counts_.held;
  entry.held = -1;
  if (decision.verdict == Admission::Reject) {
    refuse(first.id, Refusal::Busy, decision.reason, now);
    return true;
  }
  if (try_start(entry, {decision.instance, decision.reason}, now)) return true;
  Line& again = line_of(entry);
  again.push_back(first);  // routing declined: back to its old place
  std::ranges::push_heap(again, LeavesLater{});
  requests_.at(first.id.value()).held = first.sequence;
  ++counts_.held;
  return false;
}

// --- preemption: one more urgent takes the place of one that runs ---

std::int64_t FleetLoop::policy_key(const Entry& entry, Instant now) {
  return policies_.queueing.policy->key_again(entry.request, entry.produced, now);
}

void FleetLoop::runs(Entry& entry, Instant now) {
  if (!preemptive_) return;
  entry.rank = policies_.queueing.policy->running_rank(policy_key(entry, now), now);
  running_.emplace(entry.rank, entry.request.id.value());
}

void FleetLoop::runs_no_more(const Entry& entry) {
  if (displacing_ == entry.request.id) displacing_ = RequestId(-1);
  if (preemptive_) running_.erase({entry.rank, entry.request.id.value()});
}

/// The running request to preempt: the one of the largest rank above `than`, among those examined. -1: none.
RequestId FleetLoop::least_urgent(const Entry& for_whom, std::int64_t than) {
  constexpr int kMostOthers = 32;  // limit on requests that would free no place for this one
  int others = 0;
  for (auto it = running_.rbegin(); it != running_.rend() && it->first > than && others < kMostOthers; ++it, ++others) {
    const Entry& entry = requests_.at(it->second);
    if (entry.decode != kNoInstance) continue;
    if (pools_.several() && entry.request.request_class != for_whom.request.request_class) continue;
    const InstanceView* const at = find(entry.prefill);
    if (at != nullptr && !fit_for(for_whom, std::array{at}).empty()) return RequestId(it->second);
  }
  return RequestId(-1);
}

void FleetLoop::perhaps_preempt(Instant now) {
  if (!preemptive_ || retrying_ || counts_.held == 0 || displacing_ != RequestId(-1)) return;
  if (!policies_.queueing.policy->preempts()) return;
  stopped_.assign(lines_.size(), false);
  while (Line* line = next_line()) {
    if (strict_) stopped_.assign(lines_.size(), true);
    stopped_[static_cast<std::size_t>(line - lines_.data())] = true;
    if (displace_for(line->front(), now)) return;
  }
}

bool FleetLoop::displace_for(Held first, Instant now) {
  const RequestId urgent = first.id;
  const std::int64_t rank = policies_.queueing.policy->waiting_rank(first.key, now);
  Entry& first_entry = requests_.at(urgent.value());
  if (!first_entry.may_displace) return false;
  for (RequestId id = least_urgent(first_entry, rank); id != RequestId(-1); id = least_urgent(first_entry, rank)) {
    const Entry& entry = requests_.at(id.value());
    running_.erase({entry.rank, id.value()});  // each request is tried once, whatever the port answers
    displacing_ = id;
    if (port_.preempt(Request(entry.request), entry.tag, entry.prefill, entry.answered, now)) {
      first_entry.may_displace = false;
      sink_.decision({now, journal::DecisionKind::Queueing, Mode::Enforce, id, entry.prefill, urgent.value(),
                      "displaced by one more urgent"});
      return true;
    }
    displacing_ = RequestId(-1);
  }
  return false;
}

void FleetLoop::displaced(RequestId id, std::int32_t produced, Instant now) {
  ++round_;
  Entry& entry = requests_.at(id.value());
  WATTLE_CHECK(displacing_ == id && entry.prefill != kNoInstance, "only what was asked for is given up");
  displacing_ = RequestId(-1);
  taken_back(entry, "displaced by one more urgent", now);
  entry.produced = produced;
  entry.may_displace = false;
  hold(entry, now);
  retry_held(now);
}

}  // namespace wattle::control
