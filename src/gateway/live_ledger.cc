#include "gateway/live_ledger.h"

#include <algorithm>
#include <utility>

namespace wattle::gateway {

namespace {

/// Longer than an agent takes to be restarted by a service manager; requests are not held in the books for longer.
constexpr Span kPatience = Span::s(5);
constexpr std::size_t kEventsMax = 1 << 16;
constexpr std::size_t kRecentMax = 4096;
/// Prompt tokens of a step where nobody tells: an engine's usual budget.
constexpr std::int64_t kStepTokens = 8192;

}  // namespace

void LiveLedger::add_instance(std::int32_t gpus, SiteId site, Instant now) {
  const InstanceId id(index_.newest().value() + 1);
  index_.add(id);
  meters_.emplace_back();
  meters_.back().since = now;
  ledger_.add_instance(now, gpus, site);
  ledger_.power_unknown(id, now, 0, 0);
}

LiveLedger::Billed* LiveLedger::find(RequestId id) {
  const auto found = billed_.find(id.value());
  return found == billed_.end() ? nullptr : &found->second;
}

LiveLedger::Billed* LiveLedger::unfinished(RequestId id) {
  Billed* r = find(id);
  return r == nullptr || r->outcome ? nullptr : r;
}

LiveLedger::Billed* LiveLedger::at_engine(RequestId id) {
  Billed* r = unfinished(id);
  return r == nullptr || r->prefill == kNoInstance ? nullptr : r;
}

// ---- what happens --------------------------------------------------------------------------------------------------

void LiveLedger::put(InstanceId instance, const Event& event) {
  const auto i = index_.find(instance);
  if (!i) return;  // gone: nobody pays
  Meter& meter = meters_[*i];
  if (meter.events.size() >= kEventsMax) lose(*i, event.at);
  meter.events.push_back(event);
  if (Billed* r = find(event.request)) ++r->open;
  if (!meter.anchored) unmetered(*i, event.at);
}

void LiveLedger::prompts_under_way(InstanceId instance, std::int64_t tokens, Instant at) {
  const auto i = index_.find(instance);
  if (!i) return;
  Meter& meter = meters_[*i];
  meter.asked_tokens += tokens;
  if (!meter.reports_steps) put(instance, {at, Kind::Step, RequestId{-1}, std::min(meter.asked_tokens, kStepTokens)});
}

void LiveLedger::started(const Request& request, InstanceId instance, Instant at) {
  if (at_engine(request.id) != nullptr) lost(request.id, at);  // its first leg was for nothing
  Billed& r = billed_[request.id.value()];
  r.request = request;
  r.prompt_tokens = std::max(request.prompt_tokens, 1);
  r.prefill = r.decode = instance;
  prompts_under_way(instance, request.prompt_tokens, at);
}

void LiveLedger::withdrawn(RequestId id, Instant at) {
  Billed* r = at_engine(id);
  if (r == nullptr || r->prefilled || r->decoding) return;
  prompts_under_way(r->prefill, -r->request.prompt_tokens, at);
  r->prefill = r->decode = kNoInstance;
  if (!r->again) billed_.erase(id.value());
}

/// Meters are read at their own times: the lost attempt may still have to pay for what it used while the next one runs.
/// So it becomes a debtor of its own, and its account joins the request's when all is paid.
void LiveLedger::lost(RequestId id, Instant at) {
  Billed* r = at_engine(id);
  if (r == nullptr) return;
  prefilled(id, at);
  if (r->decoding) put(r->decode, {at, Kind::Leave, id, 0});
  const RequestId attempt(-2 - lost_attempts_++);
  rename(r->prefill, id, attempt);
  if (r->decode != r->prefill) rename(r->decode, id, attempt);
  auto node = billed_.extract(id.value());
  Billed& next = billed_[id.value()];
  next.request = node.mapped().request;
  next.attempts = std::exchange(node.mapped().attempts, 0) + 1;
  next.again = true;
  node.key() = attempt.value();
  node.mapped().request.id = attempt;
  node.mapped().of = id;
  let_go(billed_.insert(std::move(node)).position->second);
}

void LiveLedger::rename(InstanceId instance, RequestId from, RequestId to) {
  const auto i = index_.find(instance);
  if (!i) return;
  for (Event& event : meters_[*i].events) {
    if (event.request == from) event.request = to;
  }
  std::ranges::replace(meters_[*i].paying, from, to);
}

void LiveLedger::handed_over(RequestId id, InstanceId decode) {
  if (Billed* r = at_engine(id); r != nullptr && !r->decoding) r->decode = decode;
}

void LiveLedger::prefilled(RequestId id, Instant at) {
  Billed* r = at_engine(id);
  if (r == nullptr || std::exchange(r->prefilled, true)) return;
  put(r->prefill, {at, Kind::Prefilled, id, r->request.prompt_tokens});
  prompts_under_way(r->prefill, -r->request.prompt_tokens, at);
}

void LiveLedger::first_token(RequestId id, Instant at) {
  Billed* r = at_engine(id);
  if (r == nullptr || std::exchange(r->decoding, true)) return;
  prefilled(id, at);
  put(r->decode, {at, Kind::Join, id, 0});
}

void LiveLedger::step(InstanceId instance, std::int64_t prefill_tokens, Instant at) {
  if (const auto i = index_.find(instance)) meters_[*i].reports_steps = true;
  put(instance, {at, Kind::Step, RequestId{-1}, prefill_tokens});
}

void LiveLedger::unseen(RequestId id, Instant at) {
  Billed* r = at_engine(id);
  if (r != nullptr && !std::exchange(r->decoding, true)) put(r->decode, {at, Kind::Join, id, 0});
}

/// A prompt whose step is not paid yet pays for what was computed of it, not for what was believed.
void LiveLedger::leaving(RequestId id, Leaving leaving) {
  Billed* const before = find(id);
  if (before == nullptr && leaving.booked) return booked_already(id, std::move(leaving));
  Billed& r = before == nullptr ? billed_[id.value()] : *before;  // a new one has not reached an engine
  // Of one that is booked only the energy of lost attempts is not known yet.
  if (!leaving.booked && leaving.counted.prompt > 0) {
    r.prompt_tokens = std::max(leaving.counted.prompt - std::max(leaving.counted.cached, 0), 1);
  } else if (!leaving.booked && leaving.counted.prompt == 0) {
    refused(r);
  }
  r.leaving = std::move(leaving);
}

void LiveLedger::booked_already(RequestId id, Leaving leaving) {
  Outcome outcome;
  outcome.request.id = RequestId{-1};
  outcome.metered = false;
  for (std::size_t i = recent_.size(); i-- > 0;) {
    Recent& one = recent_[(oldest_ + i) % recent_.size()];
    if (one.outcome.request.id != id) continue;
    one.name = std::move(leaving.name);
    outcome = one.outcome;
    break;
  }
  if (leaving.charged) leaving.charged(outcome, meters());
}

/// Its engine has computed nothing for it. Since the newest reading it has used nothing; what was booked before that
/// stays.
void LiveLedger::refused(Billed& r) {
  r.prompt_tokens = 0;
  const auto i = index_.find(r.decode);
  if (!i) return;
  const auto joined = std::erase_if(meters_[*i].events, [&r](const Event& event) {
    return event.kind == Kind::Join && event.request == r.request.id;
  });
  if (joined == 0) return;
  r.open -= static_cast<std::int32_t>(joined);
  r.decoding = false;
}

void LiveLedger::outcome(const Outcome& outcome) {
  Billed& r = billed_[outcome.request.id.value()];  // a new one, when it was refused on arrival
  if (r.prefill != kNoInstance) prefilled(outcome.request.id, outcome.left);
  if (r.decoding) put(r.decode, {outcome.left, Kind::Leave, outcome.request.id, 0});
  r.outcome = outcome;
  let_go(r);
}

// ---- what it cost --------------------------------------------------------------------------------------------------

void LiveLedger::reading(const EngineReading& reading) {
  const auto there = index_.find(reading.instance);
  if (!there) return;
  const std::size_t i = *there;
  Meter& meter = meters_[i];
  read_ = true;
  meter.read = reading.at;
  emulated_ = emulated_ || reading.emulated;
  const bool restarted =
      std::exchange(meter.since_unix_us, reading.meters_since_unix_us) != reading.meters_since_unix_us;
  if (!meter.anchored) {
    unmetered(i, reading.at);
    meter.anchored = true;
    meter.counter = reading.energy;
    return;
  }
  if (reading.at <= meter.since) return;
  if (restarted || reading.energy < meter.counter) {
    ++counts_.meter_resets;
    meter.counter = reading.energy;
    return unmetered(i, reading.at);
  }
  const Picojoules drawn = reading.energy - meter.counter;
  meter.counter = reading.energy;
  counts_.metered += drawn;
  if (meter.late) return read_late(i, drawn, reading.at);
  const Int128 whole = drawn.value() + meter.carry;
  const Int128 span = (reading.at - meter.since).ns();
  meter.carry = whole % span;
  book(i, Milliwatts(static_cast<std::int64_t>(whole / span)), reading.at);
}

void LiveLedger::book(std::size_t i, std::optional<Milliwatts> power, Instant until) {
  Meter& meter = meters_[i];
  const InstanceId id = index_[i];
  const auto draws = [&](Instant at, std::optional<Milliwatts> watts) {
    watts ? ledger_.power_changes(id, at, *watts, meter.decoding, meter.prefill_tokens)
          : ledger_.power_unknown(id, at, meter.decoding, meter.prefill_tokens);
  };
  draws(meter.since, power);
  std::size_t done = 0;
  for (; done < meter.events.size() && meter.events[done].at <= until; ++done) {
    const Instant at = std::max(meter.events[done].at, meter.since);
    apply(i, meter.events[done], at);
    draws(at, power);
  }
  meter.events.erase(meter.events.begin(), meter.events.begin() + static_cast<std::ptrdiff_t>(done));
  settle(i, until);
  meter.since = until;
  ledger_.close(id, until);  // the totals are those of the reading
  draws(until, std::nullopt);
}

void LiveLedger::apply(std::size_t i, const Event& event, Instant at) {
  Meter& meter = meters_[i];
  const InstanceId id = index_[i];
  switch (event.kind) {
    case Kind::Step:
      settle(i, at);
      meter.prefill_tokens = event.tokens;
      return;
    case Kind::Prefilled:
      if (find(event.request)->prompt_tokens > 0) {
        meter.paying.push_back(event.request);
        return;
      }
      if (meter.paying.empty() && meter.asked_tokens == 0) ledger_.settle_prefill(id, at, {});  // nobody's
      break;
    case Kind::Join: {
      Billed& r = *find(event.request);
      ledger_.decode_joined(id, r.account, at);
      r.sharing = true;
      ++meter.decoding;
      break;
    }
    case Kind::Leave: {
      Billed& r = *find(event.request);
      if (std::exchange(r.sharing, false)) {
        ledger_.decode_left(id, r.account, at);
        --meter.decoding;
      }
      break;
    }
  }
  paid(event.request);
}

void LiveLedger::settle(std::size_t i, Instant at) {
  Meter& meter = meters_[i];
  if (meter.paying.empty()) return;
  shares_.clear();
  for (const RequestId id : meter.paying) {
    Billed& r = *find(id);
    shares_.push_back({&r.account, r.prompt_tokens});
  }
  ledger_.settle_prefill(index_[i], at, shares_);
  for (const RequestId id : std::exchange(meter.paying, {})) paid(id);
}

void LiveLedger::paid(RequestId id) {
  Billed& r = *find(id);
  --r.open;
  let_go(r);
}

void LiveLedger::let_go(Billed& r) {
  if (r.open > 0 || r.attempts > 0) return;
  if (r.of != RequestId{-1}) {
    Billed& request = *find(r.of);
    request.account.prefill += r.account.prefill;
    request.account.decode += r.account.decode;
    request.account.unknown |= r.account.unknown;
    billed_.erase(r.request.id.value());
    --request.attempts;
    return let_go(request);
  }
  if (!r.outcome) return;
  Outcome outcome = *r.outcome;
  const auto model = models_.extract(outcome.request.id.value());
  static_cast<Charge&>(outcome) =
      control::known(ledger_, ledger_.request_left(outcome.request, outcome.output_tokens, r.account,
                                                   model ? model.mapped() : carbon::ModelId()));
  Leaving leaving = std::move(r.leaving);
  billed_.erase(outcome.request.id.value());
  if (!outcome.metered) ++unmetered_requests_;
  if (leaving.charged) leaving.charged(outcome, meters());
  Recent newest{outcome, leaving.counted, std::move(leaving.name)};
  if (recent_.size() < kRecentMax) {
    recent_.push_back(std::move(newest));
  } else {
    recent_[oldest_] = std::move(newest);
    oldest_ = (oldest_ + 1) % kRecentMax;
  }
  next_.outcome(outcome);
}

void LiveLedger::unmetered(std::size_t i, Instant now) { book(i, std::nullopt, std::max(now, meters_[i].since)); }

/// What its meter counts until it is read again is nobody's: the while in which it is drawn is booked by then.
void LiveLedger::lose(std::size_t i, Instant now) {
  unmetered(i, now);
  meters_[i].late = true;
}

/// Of a while that is booked as unmetered already: in the totals, at one instant, and no request's.
void LiveLedger::read_late(std::size_t i, Picojoules drawn, Instant at) {
  constexpr Span kInstant = Span::us(1);
  Meter& meter = meters_[i];
  meter.late = false;
  meter.carry = 0;
  unmetered(i, std::max(meter.since, at - kInstant));
  const Int128 span = std::max((at - meter.since).ns(), std::int64_t{1});
  ledger_.power_changes(index_[i], meter.since, Milliwatts(static_cast<std::int64_t>(drawn.value() / span)), 0, 0);
  meter.since = at;
  ledger_.close(index_[i], at);
  ledger_.power_unknown(index_[i], at, meter.decoding, meter.prefill_tokens);
}

void LiveLedger::tick(Instant now) {
  for (std::size_t i = 0; i < meters_.size(); ++i) {
    if (meters_[i].anchored && now - meters_[i].since > kPatience) lose(i, now);
  }
}

bool LiveLedger::is_unmetered(InstanceId instance, Instant now) const {
  const auto i = index_.find(instance);
  return i && (!meters_[*i].anchored || now - meters_[*i].read > kPatience);
}

void LiveLedger::gone(InstanceId instance, Instant now) {
  const auto i = index_.find(instance);
  if (!i) return;
  unmetered(*i, now);
  const Instant at = meters_[*i].since;
  for (auto& [id, r] : billed_) {
    if (r.decode != instance || !std::exchange(r.sharing, false)) continue;
    ledger_.decode_left(instance, r.account, at);
    r.account.unknown.power = true;
  }
  ledger_.instance_gone(instance, at);
  erase_at(meters_, index_.remove(instance));
}

bool LiveLedger::waits_for_readings() const {
  return std::ranges::any_of(billed_, [](const auto& entry) { return entry.second.outcome.has_value(); });
}

void LiveLedger::close(Instant now) {
  for (std::size_t i = 0; i < meters_.size(); ++i) {
    if (!meters_[i].anchored || !meters_[i].events.empty()) unmetered(i, now);
  }
}

}  // namespace wattle::gateway
