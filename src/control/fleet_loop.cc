#include "control/fleet_loop.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "model/believed_load.h"

namespace wattle::control {

FleetLoop::FleetLoop(std::vector<InstanceView> instances, DispatchPolicies policies, std::uint64_t seed,
                     const FleetLoopOptions& options, RequestPort& port, journal::Sink& sink)
    : instances_(std::move(instances)),
      policies_(std::move(policies)),
      prefill_random_(seed, "routing.prefill"),
      decode_random_(seed, "routing.decode"),
      options_(options),
      classes_(options.service.classes),
      objectives_(options.service.judged(options.slo)),
      pools_(options.service.pools, classes_.size(), classes_.tiers()),
      held_to_(objectives_, classes_, options.answers),
      answers_(static_cast<std::size_t>(held_to_.ranks()), AnswerGaps(options.answers.late)),
      port_(port),
      sink_(sink) {
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    WATTLE_CHECK(instances_[i].id.value() == static_cast<std::int32_t>(i), "instance ids are their positions");
    index_.add(instances_[i].id);
    held_to_.add(pools_.tier_of(instances_[i].spec->pool));
    instances_[i].mean_gap = held_to_.mean_gap(i);
  }
  refreshed_.assign(instances_.size(), -1);
  unbegun_.resize(instances_.size());
  boosted_.resize(instances_.size());
  has_.assign(instances_.size(), kEveryModel);
  for (const Tenant& tenant : options_.service.tenants) {
    if (std::ranges::find(residencies_, tenant.residency) == residencies_.end())
      residencies_.push_back(tenant.residency);
  }
  rebuild_candidates();
  line_up();
  const auto hear = [this](policy::Policy* policy) {
    if (policy == nullptr) return;
    if (std::ranges::find(observers_, policy, &Observer::policy) != observers_.end()) return;
    const EventKinds kinds = policy->observes();
    if (std::bit_cast<std::uint32_t>(kinds) != 0) observers_.push_back({policy, kinds});
  };
  const auto listen = [&](const auto& slot) {
    if (slot.mode != Mode::Off) hear(slot.policy.get());
  };
  listen(policies_.admission);
  listen(policies_.queueing);
  listen(policies_.route_prefill);
  listen(policies_.route_decode);
  preemptive_ = ordered_by_policy() && policies_.queueing.policy->preemptive();
  strict_ = ordered_by_policy() && policies_.queueing.policy->strict();
  for (const InstanceView& view : instances_) observe(event::Joined{view}, Instant());
}

const InstanceView* FleetLoop::find(InstanceId id) const {
  const auto position = index_.find(id);
  return position ? &instances_[*position] : nullptr;
}

const InstanceView& FleetLoop::shown(InstanceId id) const {
  static const InstanceView kNothing = [] {
    InstanceView view;
    view.accepting = false;
    return view;
  }();
  const InstanceView* const known = find(id);
  return known == nullptr ? kNothing : *known;
}

InstanceView* FleetLoop::view(InstanceId id) { return const_cast<InstanceView*>(find(id)); }

InstanceView& FleetLoop::at(InstanceId id) {
  InstanceView* const known = view(id);
  WATTLE_CHECK(known != nullptr, "a known instance");
  return *known;
}

void FleetLoop::rebuild_candidates() {
  candidates_ = {};
  by_pool_.assign(pools_.several() ? static_cast<std::size_t>(pools_.pools()) : 0, {});
  ModelMask colocated = 0;
  ModelMask prefill = 0;
  ModelMask decode = 0;
  for (const auto& view : instances_) {
    if (!view.accepting || !its_pair_accepts(view)) continue;
    const ModelMask has = has_[static_cast<std::size_t>(&view - instances_.data())];
    (view.spec->role == Role::Colocated ? colocated : view.spec->role == Role::Decode ? decode : prefill) |= has;
    const auto add = [&](Candidates& to) {
      (view.spec->role == Role::Decode ? to.decode : to.prefill).push_back(&view);
    };
    add(candidates_);
    const auto pool = static_cast<std::size_t>(view.spec->pool.value());
    if (pool < by_pool_.size()) add(by_pool_[pool]);
  }
  ready_models_ = colocated | (prefill & decode);
}

std::span<const InstanceView* const> FleetLoop::fit_for(const Entry& entry, std::span<const InstanceView* const> from) {
  const Residency& residency = entry.request.residency;
  const bool undivided = entry.request.undivided;
  if (!models_differ_ && !residency.stated() && !undivided && entry.avoided == kNoInstance) return from;
  fit_.clear();
  std::ranges::copy_if(from, std::back_inserter(fit_), [&](const InstanceView* view) {
    const ModelMask has = has_[static_cast<std::size_t>(view - instances_.data())];
    return (!models_differ_ || (has >> entry.model & 1) != 0) && residency.allows(view->spec->site) &&
           (!undivided || view->spec->role == Role::Colocated);
  });
  if (fit_.size() > 1) std::erase_if(fit_, [&](const InstanceView* view) { return view->id == entry.avoided; });
  return fit_;
}

void FleetLoop::observe(const Event& event, Instant now) {
  for (const Observer& observer : observers_) {
    if (observer.kinds.has(event)) observer.policy->observe(event, now);
  }
}

/// Updates the views that are stale. Only views that a policy will read are refreshed.
void FleetLoop::refresh(std::span<const InstanceView* const> views, Instant now) {
  for (const InstanceView* view : views) {
    auto& refreshed = refreshed_[static_cast<std::size_t>(view - instances_.data())];
    if (std::exchange(refreshed, round_) != round_) port_.refresh(view->id, now);
  }
}

AdmissionDecision FleetLoop::ask_admission(const Request& request, std::int64_t held_before, Instant now) {
  auto& slot = policies_.admission;
  if (!slot.policy || slot.mode == Mode::Off) return {};
  if (slot.policy->reads_steps()) {
    for (const auto& view : instances_) refresh(std::array{&view}, now);
  }
  FleetSnapshot fleet{now, instances_, held_before, counts_.in_flight - 1 - held_before,
                      std::ssize(candidates_.prefill)};
  if (pools_.several()) narrow(fleet, request.request_class);
  const auto decision = slot.policy->admit(request, fleet);
  sink_.decision({now, journal::DecisionKind::Admission, slot.mode, request.id, kNoInstance,
                  static_cast<std::int64_t>(decision.verdict), decision.reason});
  return slot.mode == Mode::Enforce ? decision : AdmissionDecision{};
}

ClassId FleetLoop::arrive(const Request& arrived, Tag tag, Instant now, int model) {
  ++round_;
  counts_.arrive();
  tokens_.prompt += arrived.prompt_tokens;
  const auto [place, fresh] = requests_.try_emplace(arrived.id.value(), arrived, tag, model);
  WATTLE_CHECK(fresh, "request ids are unique");
  Request& request = place->second.request;
  request.request_class = classes_.of(request);  // requests that are refused at once have the class they arrived with
  if (request.undivided && !std::exchange(some_undivided_, true)) line_up();
  if (options_.unready_wait == Span() && unready(place->second)) {
    return turn_away(request, Refusal::NotReady, kUnready, now);
  }
  if (counts_.in_flight > options_.max_requests) {
    return turn_away(request, Refusal::Busy, "the gateway's queue is full", now);
  }
  if (!has_place(request)) {
    return turn_away(request, Refusal::NotReady, kNoPlace, now);
  }
  if (policies_.length) {
    const auto said = policies_.length->answer(arrived);
    request.predicted_output_tokens = said.tokens;
    if (said.fallback != nullptr) {
      sink_.decision(
          {now, journal::DecisionKind::Length, Mode::Enforce, request.id, kNoInstance, said.tokens, said.fallback});
    }
    request.request_class = classes_.of(request);
  }
  if (pools_.sheds(request.request_class)) {
    shed_one(request.id, "the plan serves a share of its class", now);
    return turn_away(request, Refusal::Squashed, kShed, now);
  }
  if (!observers_.empty()) observe(event::Arrived{request}, now);
  const auto decision = ask_admission(request, counts_.held, now);
  if (decision.verdict == Admission::Reject) return turn_away(request, Refusal::Busy, decision.reason, now);
  if (options_.answers.late > 0.0 && objectives_.of(request).e2e) expect_answer(request.tier, now);
  const ClassId into = request.request_class;
  Line& line = line_of(place->second);
  drop_left(line);
  const bool others_wait = strict_ ? counts_.held > 0 : !line.empty();
  if (decision.verdict == Admission::Admit && !others_wait && !unready(place->second) &&
      try_start(place->second, {decision.instance, decision.reason}, now)) {
    return into;
  }
  hold(place->second, now);
  // New requests keep the queue's order: if this one was admitted, those before it are tried first.
  if (decision.verdict == Admission::Admit && others_wait) retry_held(now);
  perhaps_preempt(now);
  return into;
}

ClassId FleetLoop::turn_away(const Request& request, Refusal refusal, const char* reason, Instant now) {
  const ClassId into = request.request_class;
  refuse(request.id, refusal, reason, now);
  return into;
}

const std::vector<const InstanceView*>& FleetLoop::of(const Candidates& from, journal::DecisionKind kind) {
  return kind == journal::DecisionKind::RouteDecode ? from.decode : from.prefill;
}

void FleetLoop::assign(InstanceId id, const Entry& entry, int sign, Instant now) {
  InstanceView* const of = view(id);
  if (of == nullptr) return;  // the instance has been removed
  const auto i = static_cast<std::size_t>(of - instances_.data());
  if (held_to_.count(i, entry.request.tier, sign)) hold_to(i, now);
  of->assigned_requests += sign;
  of->assigned_prompt_tokens += sign * entry.request.prompt_tokens;
  if (!entry.answered) of->unanswered_prompt_tokens += sign * entry.request.prompt_tokens;
}

void FleetLoop::answered(Entry& entry) {
  if (std::exchange(entry.answered, true)) return;
  each_place(entry, [&](InstanceId id) {
    if (InstanceView* const of = view(id)) of->unanswered_prompt_tokens -= entry.request.prompt_tokens;
  });
}

bool FleetLoop::try_start(Entry& entry, const RouteDecision& bound, Instant now) {
  WATTLE_CHECK(bound.instance == kNoInstance ||
                   std::ranges::binary_search(candidates_.prefill, bound.instance, {}, &InstanceView::id),
               "admission binds to an instance that accepts first legs");
  const RequestId request = entry.request.id;
  const InstanceView* const wanted = find(bound.instance);
  const bool binds = wanted != nullptr && !fit_for(entry, std::array{wanted}).empty();
  const RouteDecision chosen_by = binds ? bound : pick(journal::DecisionKind::RoutePrefill, entry, now);
  const InstanceId id = chosen_by.instance;
  if (id == kNoInstance) return false;
  assign(id, entry, +1, now);
  InstanceView& chosen = at(id);
  entry.request.pool = chosen.spec->pool;  // where admission or the emergency ladder chose the instance, no pool was
  count_in_pool(entry, +1);
  if (chosen.spec->beliefs.load != nullptr) {
    const double most = most_load_per_s(chosen, entry.request.request_class);
    chosen.load.add(most > 0.0 ? LoadShare::of_one(most) : 1.0, now);
  }
  entry.dispatched = now;
  entry.request.order = ordered_by_policy() ? policy_key(entry, now) : 0;
  entry.prefill = id;
  entry.prefill_role = chosen.spec->role;
  runs(entry, now);
  waits(now);
  if (watches()) unbegun_[static_cast<std::size_t>(&chosen - instances_.data())].push_back(request);
  if (!observers_.empty()) observe(event::Started{entry.request, chosen}, now);
  port_.start(Request(entry.request), entry.tag, chosen_by, now);  // a copy: the port may call back and erase it
  if (options_.both_legs_at_once) bind(request, true, now);
  return true;
}

void FleetLoop::first_token(RequestId id, Instant now) {
  const auto found = requests_.find(id.value());
  if (found == requests_.end() || found->second.prefill == kNoInstance) return;
  Entry& entry = found->second;
  if (!entry.answered) decode_answers(entry, now);
  answered(entry);
  begun(entry);
  const InstanceId instance = entry.decode == kNoInstance ? entry.prefill : entry.decode;
  const InstanceView* const known = find(instance);
  if (known == nullptr) return;
  const event::FirstToken token{entry.request, *known};
  const auto reads = [&](const Observer& o) { return o.kinds.has(token) && o.policy->reads_steps(); };
  if (std::ranges::any_of(observers_, reads)) port_.refresh(instance, now);
  observe(token, now);
}

void FleetLoop::decode_answers(const Entry& entry, Instant now) {
  if (entry.decode == kNoInstance || entry.computed >= now) return;
  const control::HandOver what{entry.prefill, entry.decode, entry.computed - entry.request.arrival,
                               now - entry.computed};
  if (const InstanceView* const known = find(entry.decode); known != nullptr) {
    observe(event::HandedOver{entry.request, *known, what.age, what.wait}, now);
  }
  port_.handed_over(what, now);
}

void FleetLoop::prefill_done(RequestId id, Instant now) {
  ++round_;
  const auto found = requests_.find(id.value());
  if (found == requests_.end() || found->second.prefill == kNoInstance) return;  // cancelled meanwhile
  begun(found->second);
  found->second.computed = now;
  if (std::exchange(found->second.prefilling, false)) {
    return assign(found->second.prefill, found->second, -1, now);
  }
  bind(id, false, now);
}

void FleetLoop::bind(RequestId id, bool prefilling, Instant now) {
  const auto found = requests_.find(id.value());
  if (found == requests_.end()) return;  // left from within start()
  Entry& entry = found->second;
  if (entry.decode != kNoInstance) return;          // reported twice
  if (entry.prefill_role != Role::Prefill) return;  // colocated: there is no second leg
  if (options_.unready_wait > Span() && !ready(entry.model)) {
    // No decode instance accepts requests: the prompt has to be computed again later.
    runs_no_more(entry);
    const InstanceId prefill = entry.prefill;
    taken_back(entry, "no decode instance accepts requests", now);
    port_.in_vain(entry.request, entry.tag, prefill, now);
    hold(entry, now);
    return retry_held(now);
  }
  const RouteDecision decode = pick(journal::DecisionKind::RouteDecode, entry, now);
  if (!prefilling || decode.instance == kNoInstance) assign(entry.prefill, entry, -1, now);
  if (decode.instance == kNoInstance) {
    refuse(id, Refusal::NotReady, "no decode instance accepts requests", now);
    retry_held(now);
    return;
  }
  entry.decode = decode.instance;
  entry.prefilling = prefilling;
  assign(decode.instance, entry, +1, now);
  port_.hand_over(Request(entry.request), entry.tag, entry.prefill, decode, now);
}

/// The request no longer counts as held.
void FleetLoop::refuse(RequestId id, Refusal refusal, const char* reason, Instant now) {
  const auto node = requests_.extract(id.value());
  const Entry& entry = node.mapped();
  runs_no_more(entry);
  if (entry.prefill != kNoInstance) count_in_pool(entry, -1);
  const Served served = port_.refuse(entry.request, entry.tag, refusal, reason, now);
  close(entry, served.first_token == Instant::never() ? Fate::Rejected : Fate::Failed, reason, served, now);
}

Outcome FleetLoop::close(const Entry& entry, Fate fate, const char* reason, const Served& served, Instant now) {
  Outcome outcome;
  outcome.request = entry.request;
  outcome.request.predicted_output_tokens = entry.stated_output_tokens;
  if (served.prompt_tokens >= 0) {
    tokens_.prompt += served.prompt_tokens - entry.request.prompt_tokens;
    outcome.request.prompt_tokens = served.prompt_tokens;
  }
  outcome.fate = fate;
  outcome.reason = reason;
  outcome.dispatched = entry.dispatched;
  outcome.prefill_start = served.prefill_start.value_or(entry.dispatched);
  outcome.first_token = served.first_token;
  outcome.whole_gap = served.whole_gap;
  outcome.left = now;
  outcome.output_tokens = served.output_tokens;
  outcome.preemptions = served.preemptions;
  outcome.prefill_instance = entry.prefill;
  outcome.decode_instance = entry.decode;
  if (entry.decode == kNoInstance && entry.prefill != kNoInstance && entry.prefill_role == Role::Colocated) {
    outcome.decode_instance = entry.prefill;
  }
  static_cast<Charge&>(outcome) = served.charge;
  outcome.gaps_within_itl = served.gaps_within_itl;
  outcome.longest_gap = served.longest_gap;
  outcome.cached_prompt_tokens = served.cached_prompt_tokens;
  tokens_.output += served.output_tokens;
  counts_.leave(fate);
  if (fate == Fate::Finished) {
    turned_out_.add(outcome.request.request_class,
                    classes_.of(outcome.request.prompt_tokens, served.output_tokens, outcome.request.tier));
    const Slo& slo = objectives_.of(outcome.request, outcome.output_tokens);
    if (slo.e2e && options_.answers.late > 0.0) note_answer(outcome, slo, now);
    const bool late = !outcome.kept(slo).all();
    if (late) turned_out_.add_late(outcome.request.request_class);
    port_.finished(outcome.decode_instance, outcome.request.request_class, late);
  }
  sink_.outcome(outcome);
  return outcome;
}

std::optional<Tag> FleetLoop::leave(RequestId id, Fate fate, const char* reason, const Served& served, Instant now) {
  ++round_;
  const auto node = requests_.extract(id.value());
  if (node.empty()) return std::nullopt;
  const Entry& entry = node.mapped();
  if (entry.prefill == kNoInstance) {
    --counts_.held;                                       // its entry in the line is removed when it reaches the front,
    if (++left_in_lines_ > counts_.held + 64) line_up();  // or here
    close(entry, fate, reason, served, now);
    retry_held(now);  // this request may have blocked those behind it
    return entry.tag;
  }
  begun(entry);
  runs_no_more(entry);
  each_place(entry, [&](InstanceId id) { assign(id, entry, -1, now); });
  count_in_pool(entry, -1);
  const Outcome outcome = close(entry, fate, reason, served, now);
  if (!observers_.empty()) observe(event::Left{outcome}, now);
  if (policies_.length) policies_.length->observe(outcome);
  retry_held(now);
  return entry.tag;
}

void FleetLoop::report(const StepReport& report, const Pace& pace) {
  InstanceView* const of = view(report.instance);
  if (of == nullptr) return;
  of->step = report;
  of->pace = pace;
  if (report.clock != MegaHertz{0}) of->clock_commanded = report.clock;
  of->telemetry = report.shape.idle() ? Telemetry::Idle : Telemetry::Fresh;
}

void FleetLoop::changed(InstanceId id) {
  if (const InstanceView* of = find(id)) refreshed_[static_cast<std::size_t>(of - instances_.data())] = -1;
}

void FleetLoop::lost(InstanceId id) {
  if (InstanceView* const of = view(id)) of->telemetry = Telemetry::Lost;
}

void FleetLoop::set_accepting(InstanceId id, bool accepting, Instant now) {
  WATTLE_CHECK(id.value() >= 0 && id <= index_.newest(), "a known instance");
  ++round_;
  InstanceView* const of = view(id);
  if (of == nullptr) return;
  if (std::exchange(of->accepting, accepting) != accepting) rebuild_candidates();
  if (accepting) retry_held(now);
}

void FleetLoop::reroute(std::span<const PoolWeight> weights, Instant now) {
  ++round_;
  weights_.assign(weights.begin(), weights.end());
  std::int32_t pools = static_cast<std::int32_t>(options_.service.pools.size());
  for (const InstanceView& view : instances_) {
    if (!weights.empty()) pools = std::max(pools, view.spec->pool.value() + 1);
  }
  pools_.reroute(weights, pools);
  hold_to_pools(now);
  rebuild_candidates();
  line_up();
  shed_held(now);
  retry_held(now);
}

/// Refuses held requests of classes that no pool serves any more.
void FleetLoop::shed_held(Instant now) {
  std::vector<RequestId> shed;
  for (const auto& [id, entry] : requests_) {
    if (entry.held < 0 || entry.answered) continue;
    if (pools_.sheds_all(entry.request.request_class)) shed.push_back(entry.request.id);
  }
  std::ranges::sort(shed);
  for (const RequestId id : shed) {
    const auto found = requests_.find(id.value());
    if (found == requests_.end() || found->second.held < 0) continue;
    shed_one(id, "the plan serves nothing of its class", now);
    --counts_.held;
    ++left_in_lines_;
    refuse(id, Refusal::Squashed, kShed, now);
  }
}

void FleetLoop::shed_one(RequestId id, const char* reason, Instant now) {
  sink_.decision({now, journal::DecisionKind::Emergency, Mode::Enforce, id, kNoInstance,
                  static_cast<std::int64_t>(journal::Rung::Shed), reason});
}

InstanceId FleetLoop::add_instance(InstanceView view, Instant now, ModelMask has) {
  const InstanceId id = view.id = InstanceId(index_.newest().value() + 1);
  index_.add(id);
  const bool accepting = view.accepting;
  instances_.push_back(view);
  held_to_.add(pools_.tier_of(view.spec->pool));
  instances_.back().mean_gap = held_to_.mean_gap(instances_.size() - 1);
  refreshed_.push_back(-1);
  has_.push_back(has);
  if (has != kEveryModel && !std::exchange(models_differ_, true)) line_up();
  const bool stranger = pools_.several() && view.spec->pool.value() >= pools_.pools();
  if (stranger) reroute(std::vector<PoolWeight>(weights_), now);
  unbegun_.emplace_back();
  boosted_.emplace_back();
  rebuild_candidates();  // the vector may have moved
  observe(event::Joined{instances_.back()}, now);
  if (accepting) retry_held(now);
  return id;
}

void FleetLoop::remove_instance(InstanceId id, Instant now) {
  set_accepting(id, false, now);
  const InstanceView* const of = find(id);
  if (of == nullptr) return;
  const InstanceView last = *of;
  const std::size_t i = index_.remove(id);
  erase_at(instances_, i);
  held_to_.remove(i);
  erase_at(refreshed_, i);
  erase_at(has_, i);
  erase_at(unbegun_, i);
  erase_at(boosted_, i);
  rebuild_candidates();
  observe(event::Gone{last}, now);
  if (last.spec->role == Role::Decode) end_pairs_with(id, now);
  if (residencies_.size() > 1) retry_held(now);  // some held requests may have no instance left
}

}  // namespace wattle::control
