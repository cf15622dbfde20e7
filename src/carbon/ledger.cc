#include "carbon/ledger.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace wattle::carbon {

namespace {

/// Beyond this share one row: bounded memory against hostile tenant ids.
constexpr std::size_t kMaxRows = 32768;
/// Instances that are gone and have rows of their own.
constexpr std::size_t kGoneRows = 256;

template <typename Id>
Usage& row(std::map<std::pair<ModelId, Id>, Usage>& rows, ModelId model, Id id) {
  const auto found = rows.find({model, id});
  if (found != rows.end()) return found->second;
  return rows[{model, rows.size() < kMaxRows ? id : Id{-1}}];
}

/// whole x some / all, rounded down. All or nothing is the common case, and a wide division is slow.
Int128 share_of(const Int128& whole, std::int64_t some, std::int64_t all) {
  if (some == all) return whole;
  return some == 0 ? 0 : whole * some / all;
}

std::int64_t millionths(double value) { return static_cast<std::int64_t>(std::llround(value * 1e6)); }

}  // namespace

CostUnits SiteRates::gpu_cost(Span gpu_time) const {
  return {Int128{gpu_time.ns()} * millionths(gpu_price.value()) * kCostUnitsPerGpuPrice};
}

Totals& Totals::operator+=(const Totals& o) {
  total += o.total;
  prefill += o.prefill;
  decode += o.decode;
  idle += o.idle;
  residue += o.residue;
  idle_tail += o.idle_tail;
  unknown_carbon += o.unknown_carbon;
  unknown_price += o.unknown_price;
  metered = metered + o.metered;
  unmetered = unmetered + o.unmetered;
  return *this;
}

Ledger::Ledger(std::vector<SiteRates> sites) : sites_(std::move(sites)), departed_(sites_.size()) {
  WATTLE_CHECK(!sites_.empty(), "a ledger has at least one site");
}

void Ledger::add_instance(Instant since, std::int32_t gpus, SiteId site) {
  WATTLE_CHECK(site.value() >= 0 && static_cast<std::size_t>(site.value()) < sites_.size(), "a site of the ledger's");
  Meter meter;
  meter.since = since;
  meter.gpus = gpus;
  meter.site = site;
  meter.rates = rates_at(site, since);
  index_.add(InstanceId(index_.newest().value() + 1));
  meters_.push_back(meter);
}

void Ledger::set_gpus(InstanceId instance, std::int32_t gpus, Instant at) {
  Meter& meter = meter_of(instance);
  close(meter, at);
  meter.gpus = gpus;
}

void Ledger::spare_gpus(SiteId site, std::int32_t gpus, Milliwatts power, Instant at) {
  auto found = std::ranges::find(spare_, site, &Meter::site);
  if (found == spare_.end()) {
    WATTLE_CHECK(site.value() >= 0 && static_cast<std::size_t>(site.value()) < sites_.size(), "a site of the ledger's");
    Meter meter;
    meter.since = at;
    meter.site = site;
    meter.rates = rates_at(site, at);
    found = spare_.insert(spare_.end(), meter);
  }
  close(*found, at);
  found->gpus = gpus;
  found->power = power;
}

Milliwatts Ledger::idle_power() const {
  Milliwatts all;
  for (const auto* meters : {&meters_, &spare_}) {
    for (const Meter& meter : *meters) {
      if (meter.decode_requests + meter.prefill_tokens == 0) all = Milliwatts(all.value() + meter.power.value());
    }
  }
  return all;
}

void Ledger::set_intensity(SiteId site, IntensitySeries intensity) {
  sites_[static_cast<std::size_t>(site.value())].intensity = std::move(intensity);
  look_up_again();
}

void Ledger::time_of_day_is(Span ahead) {
  ahead_ = ahead;
  look_up_again();
}

void Ledger::look_up_again() {
  for (auto* meters : {&meters_, &spare_}) {
    for (Meter& meter : *meters) meter.rates.until = meter.since;
  }
}

void Ledger::instance_gone(InstanceId instance, Instant at) {
  Meter& meter = meter_of(instance);
  close(meter, at);
  WATTLE_CHECK(meter.power == Milliwatts(0), "INV-9: an instance that is gone draws nothing");
  meter.totals.residue += meter.open_prefill;
  departed_[static_cast<std::size_t>(meter.site.value())] += meter.totals;
  newest_gone_.push_back({instance, meter.site, meter.totals});
  if (newest_gone_.size() > kGoneRows) {
    others_ += newest_gone_.front().totals;
    ++other_instances_;
    newest_gone_.pop_front();
  }
  erase_at(meters_, index_.remove(instance));
}

Ledger::Rates Ledger::rates_at(SiteId site, Instant at) const {
  const SiteRates& rates = sites_[static_cast<std::size_t>(site.value())];
  const Span ahead = rates.by_time_of_day ? ahead_ : Span();
  const Instant there = at + ahead;
  return {millionths(rates.intensity.at(there).value()),
          millionths(rates.electricity.at(there).value()),
          millionths(rates.gpu_price.value()),
          std::min(rates.intensity.holds_until(there), rates.electricity.holds_until(there)) - ahead,
          rates.intensity.covers(there),
          rates.electricity.covers(there)};
}

std::optional<GramsPerKwh> Ledger::intensity(SiteId site, Instant at) const {
  const SiteRates& rates = sites_[static_cast<std::size_t>(site.value())];
  const Instant there = at + (rates.by_time_of_day ? ahead_ : Span());
  return rates.intensity.covers(there) ? std::optional(rates.intensity.at(there)) : std::nullopt;
}

void Ledger::book(Meter& meter, Span span) {
  const Rates& rates = meter.rates;
  const auto booking = [&](Picojoules e, Span gpus) {
    return Booking{
        e,
        {e.value() * rates.micrograms_per_kwh},
        gpus,
        {e.value() * rates.microusd_per_mwh + Int128{gpus.ns()} * rates.microusd_per_gpu_h * kCostUnitsPerGpuPrice}};
  };
  const Picojoules energy = energy_over(meter.power, span);
  const Span gpu_time = span * meter.gpus;
  Totals& totals = meter.totals;
  totals.total += booking(energy, gpu_time);
  if (!rates.intensity_known) totals.unknown_carbon += energy;
  if (!rates.price_known) totals.unknown_price += energy;
  Span& measured = meter.metered ? totals.metered : totals.unmetered;
  measured = measured + span;
  // What draws nothing emits and costs nothing, whatever the rates.
  const bool draws = energy != Picojoules();
  const Unknown unknown{!meter.metered, draws && !rates.intensity_known, draws && !rates.price_known};
  meter.unknown.add(unknown, span);
  const std::int64_t tokens = meter.decode_requests + meter.prefill_tokens;
  if (tokens == 0) {
    totals.idle += booking(energy, gpu_time);
    totals.idle_tail += energy;
    return;
  }
  totals.idle_tail = Picojoules();
  const Picojoules prefill(share_of(energy.value(), meter.prefill_tokens, tokens));
  const Span prefill_gpus(static_cast<std::int64_t>(share_of(gpu_time.ns(), meter.prefill_tokens, tokens)));
  if (meter.prefill_tokens > 0) {
    meter.open_prefill += booking(prefill, prefill_gpus);
    meter.open_unknown |= unknown;
  }
  if (meter.decode_requests == 0) return;  // prefill is then all of it
  const Picojoules decode = energy - prefill;
  const Span decode_gpus = gpu_time - prefill_gpus;
  const Picojoules share = decode / meter.decode_requests;
  const Span share_gpus = decode_gpus / meter.decode_requests;
  meter.decode_share += booking(share, share_gpus);
  totals.decode += booking(share * meter.decode_requests, share_gpus * meter.decode_requests);
  totals.residue += booking(decode - share * meter.decode_requests, decode_gpus - share_gpus * meter.decode_requests);
}

void Ledger::close(Meter& meter, Instant at) {
  WATTLE_CHECK(at >= meter.since, "INV-1: a meter never runs backwards");
  while (meter.since < at) {
    if (meter.since >= meter.rates.until) meter.rates = rates_at(meter.site, meter.since);
    const Instant until = std::min(at, meter.rates.until);
    book(meter, until - meter.since);
    meter.since = until;
  }
}

void Ledger::changes(Meter& meter, Instant at, Milliwatts power, bool metered, std::int32_t decode_requests,
                     std::int64_t prefill_tokens) {
  // Closing an interval rounds its shares, so an unchanged one stays open: results do not depend on the number of
  // calls.
  if (power == meter.power && metered == meter.metered && decode_requests == meter.decode_requests &&
      prefill_tokens == meter.prefill_tokens)
    return;
  close(meter, at);
  meter.power = power;
  meter.metered = metered;
  meter.decode_requests = decode_requests;
  meter.prefill_tokens = prefill_tokens;
}

void Ledger::decode_joined(InstanceId instance, Account& account, Instant at) {
  Meter& meter = meter_of(instance);
  close(meter, at);
  account.joined_at = meter.decode_share;
  account.unknown_at = meter.unknown;
}

void Ledger::decode_left(InstanceId instance, Account& account, Instant at) {
  Meter& meter = meter_of(instance);
  close(meter, at);
  account.decode += meter.decode_share - account.joined_at;
  account.joined_at = meter.decode_share;
  account.unknown |= meter.unknown.since(account.unknown_at);
  account.unknown_at = meter.unknown;
}

void Ledger::settle_prefill(InstanceId instance, Instant at, std::span<const Share> shares) {
  Meter& meter = meter_of(instance);
  close(meter, at);
  std::int64_t tokens = 0;
  for (const auto& share : shares) tokens += share.tokens;
  const Booking& open = meter.open_prefill;
  Booking left = open;
  for (const auto& share : shares) {
    const auto of = [&](const Int128& whole) { return share_of(whole, share.tokens, tokens); };
    const Booking part{Picojoules(of(open.energy.value())),
                       {of(open.carbon.value)},
                       Span(static_cast<std::int64_t>(of(open.gpu_time.ns()))),
                       {of(open.cost.value)}};
    share.account->prefill += part;
    share.account->unknown |= meter.open_unknown;
    meter.totals.prefill += part;
    left = left - part;
  }
  meter.totals.residue += left;
  meter.open_prefill = {};
  meter.open_unknown = {};
}

Charge Ledger::request_left(const Request& request, std::int32_t output_tokens, const Account& account, ModelId model) {
  for (Usage* usage : {&usage_, &row(tenants_, model, request.tenant), &row(classes_, model, request.request_class)}) {
    ++usage->requests;
    usage->unmetered_requests += account.unknown.power ? 1 : 0;
    usage->unknown_carbon_requests += account.unknown.intensity ? 1 : 0;
    usage->unknown_price_requests += account.unknown.price ? 1 : 0;
    usage->prompt_tokens += request.prompt_tokens;
    usage->output_tokens += output_tokens;
    usage->booked += account.total();
  }
  return account.charge();
}

Usage Ledger::usage(ModelId model) const {
  Usage sum;
  for (const auto& [id, usage] : by_class(model)) sum += usage;
  return sum;
}

void Ledger::close(Instant at) {
  for (auto& meter : meters_) close(meter, at);
  for (auto& meter : spare_) close(meter, at);
}

Picojoules Ledger::energy_until(InstanceId instance, Instant at) const {
  const Meter& meter = meter_of(instance);
  const Picojoules booked = meter.totals.total.energy;
  return at > meter.since ? booked + energy_over(meter.power, at - meter.since) : booked;
}

Totals Ledger::totals(InstanceId instance) const {
  if (const auto i = index_.find(instance)) return meters_[*i].totals;
  const auto gone = std::ranges::find(newest_gone_, instance, &InstanceTotals::id);
  return gone == newest_gone_.end() ? Totals{} : gone->totals;
}

std::vector<InstanceTotals> Ledger::by_instance() const {
  std::vector<InstanceTotals> all(newest_gone_.begin(), newest_gone_.end());
  for (std::size_t i = 0; i < meters_.size(); ++i) all.push_back({index_[i], meters_[i].site, meters_[i].totals});
  std::ranges::sort(all, {}, &InstanceTotals::id);
  return all;
}

Totals Ledger::site(SiteId site) const {
  Totals sum = departed_[static_cast<std::size_t>(site.value())];
  for (const auto& meter : meters_) {
    if (meter.site != site) continue;
    sum += meter.totals;
    sum.residue += meter.open_prefill;
  }
  for (const auto& meter : spare_) {
    if (meter.site == site) sum += meter.totals;
  }
  return sum;
}

Totals Ledger::spare() const {
  Totals sum;
  for (const auto& meter : spare_) sum += meter.totals;
  return sum;
}

Totals Ledger::fleet() const {
  Totals sum;
  for (std::size_t i = 0; i < sites_.size(); ++i) sum += site(SiteId(static_cast<std::int32_t>(i)));
  return sum;
}

}  // namespace wattle::carbon
