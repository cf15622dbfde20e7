#include "carbon/ledger.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace wattle::carbon {

Ledger::Ledger(std::size_t instances, const IntensitySeries& intensity) : meters_(instances), intensity_(intensity) {}

void Ledger::add_instance(Instant since) {
  meters_.emplace_back();
  meters_.back().since = since;
}

void Ledger::book(Meter& meter, Span span, std::int64_t micrograms_per_kwh) {
  const auto booking = [&](Picojoules e) { return Booking{e, {e.value() * micrograms_per_kwh}}; };
  const Picojoules energy = energy_over(meter.power, span);
  meter.totals.total += booking(energy);
  const std::int64_t tokens = meter.decode_requests + meter.prefill_tokens;
  if (tokens == 0) {
    meter.totals.idle += booking(energy);
    return;
  }
  const Picojoules prefill = energy * meter.prefill_tokens / tokens;
  meter.open_prefill += booking(prefill);
  if (meter.decode_requests == 0) return;  // prefill is then all of it
  const Picojoules decode = energy - prefill;
  const Picojoules share = decode / meter.decode_requests;
  meter.decode_share += booking(share);
  meter.totals.decode += booking(share * meter.decode_requests);
  meter.totals.residue += booking(decode - share * meter.decode_requests);
}

void Ledger::close(Meter& meter, Instant at) {
  WATTLE_CHECK(at >= meter.since, "INV-1: a meter never runs backwards");
  while (meter.since < at) {
    const auto intensity = static_cast<std::int64_t>(std::llround(intensity_.at(meter.since).value() * 1e6));
    const Instant until = std::min(at, intensity_.next_change_after(meter.since));
    book(meter, until - meter.since, intensity);
    meter.since = until;
  }
}

void Ledger::power_changes(InstanceId instance, Instant at, Milliwatts power, std::int32_t decode_requests,
                           std::int64_t prefill_tokens) {
  Meter& meter = meters_[index(instance)];
  // Closing an interval rounds its shares, so one that goes on unchanged stays open: no result depends on call counts.
  if (power == meter.power && decode_requests == meter.decode_requests && prefill_tokens == meter.prefill_tokens)
    return;
  close(meter, at);
  meter.power = power;
  meter.decode_requests = decode_requests;
  meter.prefill_tokens = prefill_tokens;
}

void Ledger::decode_joined(InstanceId instance, Account& account, Instant at) {
  Meter& meter = meters_[index(instance)];
  close(meter, at);
  account.mark = meter.decode_share;
}

void Ledger::decode_left(InstanceId instance, Account& account, Instant at) {
  Meter& meter = meters_[index(instance)];
  close(meter, at);
  account.decode += meter.decode_share - account.mark;
  account.mark = meter.decode_share;
}

void Ledger::settle_prefill(InstanceId instance, Instant at, std::span<const Share> shares) {
  Meter& meter = meters_[index(instance)];
  close(meter, at);
  std::int64_t tokens = 0;
  for (const auto& share : shares) tokens += share.tokens;
  Booking left = meter.open_prefill;
  for (const auto& share : shares) {
    const Booking part{meter.open_prefill.energy * share.tokens / tokens,
                       {meter.open_prefill.carbon.value * share.tokens / tokens}};
    share.account->prefill += part;
    meter.totals.prefill += part;
    left = left - part;
  }
  meter.totals.residue += left;
  meter.open_prefill = {};
}

void Ledger::close(Instant at) {
  for (auto& meter : meters_) close(meter, at);
}

Totals Ledger::fleet() const {
  Totals sum;
  for (const auto& meter : meters_) {
    sum.total += meter.totals.total;
    sum.prefill += meter.totals.prefill;
    sum.decode += meter.totals.decode;
    sum.idle += meter.totals.idle;
    sum.residue += meter.totals.residue + meter.open_prefill;
  }
  return sum;
}

}  // namespace wattle::carbon
