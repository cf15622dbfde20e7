#include "control/consumption.h"

#include <limits>
#include <map>
#include <string>
#include <utility>

namespace wattle::control {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::string number(std::int32_t id) { return id < 0 ? "(others)" : std::to_string(id); }

/// Whether a cost can be stated.
struct Pricing {
  bool priced = true;            ///< a price for GPUs or energy is configured
  bool pays_for_energy = false;  ///< in addition to the GPUs' price
  [[nodiscard]] bool known(bool metered) const { return priced && (metered || !pays_for_energy); }
};

Pricing pricing_of(const carbon::SiteRates& rates) { return {rates.priced(), rates.pays_for_energy()}; }

journal::UsageRow row(std::string name, const carbon::Booking& booked, bool metered, const Pricing& pricing) {
  journal::UsageRow made;
  made.name = std::move(name);
  made.energy = metered ? booked.energy.joules() : Joules(kUnknown);
  made.carbon = metered ? booked.carbon.grams() : GramsCo2(kUnknown);
  made.cost = pricing.known(metered) ? booked.cost.usd() : Usd(kUnknown);
  return made;
}

journal::UsageRow row(std::string name, const carbon::Usage& usage, const Pricing& pricing) {
  const auto of_some = [&](std::int64_t unknown) { return usage.requests == 0 || usage.requests > unknown; };
  auto made = row(std::move(name), usage.booked, of_some(usage.unmetered_requests), pricing);
  if (!of_some(usage.unknown_carbon_requests)) made.carbon = GramsCo2(kUnknown);
  if (!of_some(usage.unknown_price_requests)) made.cost = Usd(kUnknown);
  made.requests = usage.requests;
  made.unmetered_requests = usage.unmetered_requests;
  made.unknown_carbon_requests = usage.unknown_carbon_requests;
  made.unknown_price_requests = usage.unknown_price_requests;
  made.prompt_tokens = usage.prompt_tokens;
  made.output_tokens = usage.output_tokens;
  return made;
}

/// True if some energy was drawn at a known intensity, or none was drawn at all.
bool carbon_known(const carbon::Totals& totals) {
  return totals.unknown_carbon == Picojoules() || totals.unknown_carbon < totals.total.energy;
}

/// The same for prices. Without a price file all prices are known.
bool price_known(const carbon::Totals& totals) {
  return totals.unknown_price == Picojoules() || totals.unknown_price < totals.total.energy;
}

/// The row of an instance or a site.
journal::UsageRow row(std::string name, const carbon::Totals& totals, bool metered, const Pricing& pricing) {
  auto made = row(std::move(name), totals.total, metered, pricing);
  if (!carbon_known(totals)) made.carbon = GramsCo2(kUnknown);
  if (!price_known(totals)) made.cost = Usd(kUnknown);
  made.unknown_carbon = metered ? totals.unknown_carbon.joules() : Joules(kUnknown);
  made.unknown_price = metered ? totals.unknown_price.joules() : Joules(kUnknown);
  return made;
}

/// False if no energy was measured.
bool metered(const carbon::Totals& totals) { return totals.metered > Span() || totals.unmetered == Span(); }

/// Names of tenants and classes, for rows.
struct Names {
  const Service& service;
  const std::function<std::string(TenantId)>& tenant_name;

  [[nodiscard]] std::string of(TenantId id) const {
    if (id.value() < 0) return number(id.value());
    if (tenant_name) return tenant_name(id);
    const auto i = static_cast<std::size_t>(id.value());
    return i < service.tenants.size() ? service.tenants[i].name : number(id.value());
  }
  [[nodiscard]] std::string of(ClassId id) const {
    const bool named = service.classes.size() > 1 && id.value() >= 0 && id.value() < service.classes.size();
    return named ? service.classes.name(id) : number(id.value());
  }
  template <typename Id>
  [[nodiscard]] std::vector<journal::UsageRow> rows(const std::map<Id, carbon::Usage>& used,
                                                    const Pricing& pricing) const {
    std::vector<journal::UsageRow> made;
    for (const auto& [id, usage] : used) made.push_back(row(of(id), usage, pricing));
    return made;
  }
};

/// For requests, which may run at any site.
Pricing pricing_of(const carbon::Ledger& ledger) {
  Pricing pricing;
  for (const auto& rates : ledger.sites()) {
    pricing.priced = pricing.priced && rates.priced();
    pricing.pays_for_energy = pricing.pays_for_energy || rates.pays_for_energy();
  }
  return pricing;
}

}  // namespace

journal::Consumption consumption(const carbon::Ledger& ledger, std::string meters, const Service& service,
                                 const std::function<std::string(TenantId)>& tenant_name) {
  journal::Consumption made;
  made.meters = std::move(meters);
  const Pricing pricing = pricing_of(ledger);
  carbon::CostUnits gpus;
  for (std::size_t i = 0; i < ledger.sites().size(); ++i) {
    const auto& rates = ledger.sites()[i];
    const auto totals = ledger.site(SiteId(static_cast<std::int32_t>(i)));
    gpus += rates.gpu_cost(totals.total.gpu_time);
    made.by_site.push_back(
        row(rates.name.empty() ? std::to_string(i) : rates.name, totals, metered(totals), pricing_of(rates)));
  }
  for (const auto& [id, site, totals] : ledger.by_instance()) {
    const auto& rates = ledger.sites()[static_cast<std::size_t>(site.value())];
    made.by_instance.push_back(row(number(id.value()), totals, metered(totals), pricing_of(rates)));
  }
  if (ledger.other_instances() > 0) {
    const auto& totals = ledger.others();
    made.by_instance.push_back(row(number(-1), totals, metered(totals), pricing));
  }
  if (const auto spare = ledger.spare(); spare.total != carbon::Booking()) {
    made.by_instance.push_back(row("(spare GPUs)", spare, metered(spare), pricing));
  }
  const Names names{service, tenant_name};
  made.by_tenant = names.rows(ledger.by_tenant(), pricing);
  made.by_class = names.rows(ledger.by_class(), pricing);
  made.all_requests = row("all", ledger.usage(), pricing);

  const auto totals = ledger.fleet();
  const bool known = metered(totals);
  const auto joules = [&](Picojoules energy) { return known ? energy.joules() : Joules(kUnknown); };
  made.energy.total = joules(totals.total.energy);
  made.energy.idle = joules(totals.idle.energy);
  made.energy.busy = joules(totals.total.energy - totals.idle.energy);
  made.energy.prefill = joules(totals.prefill.energy);
  made.energy.decode = joules(totals.decode.energy);
  made.energy.residue = joules(totals.residue.energy);
  made.energy.idle_tail = joules(totals.idle_tail);
  made.energy.unknown_carbon = joules(totals.unknown_carbon);
  made.energy.unknown_price = joules(totals.unknown_price);
  made.carbon = known && carbon_known(totals) ? totals.total.carbon.grams() : GramsCo2(kUnknown);
  const auto dollars = [](carbon::CostUnits cost, bool is_known) { return is_known ? cost.usd() : Usd(kUnknown); };
  const bool cost_known = pricing.known(known) && price_known(totals);
  made.cost = dollars(totals.total.cost, cost_known);
  made.cost_split.gpus = dollars(gpus, pricing.priced);
  made.cost_split.electricity = dollars(totals.total.cost - gpus, cost_known);
  made.gpu_s = totals.total.gpu_time.seconds();
  made.unmetered_s = totals.unmetered.seconds();
  return made;
}

Charge known(const carbon::Ledger& ledger, Charge charge) {
  if (!pricing_of(ledger).known(charge.metered)) charge.cost = Usd(kUnknown);
  return charge;
}

std::vector<ModelUsage> usage_by_model(const carbon::Ledger& ledger, std::span<const std::string> names,
                                       const Service& service,
                                       const std::function<std::string(TenantId)>& tenant_name) {
  const Pricing pricing = pricing_of(ledger);
  const Names others{service, tenant_name};
  std::vector<ModelUsage> made;
  for (const std::string& name : names) {
    const carbon::ModelId id(static_cast<std::int32_t>(made.size()));
    made.push_back({row(name, ledger.usage(id), pricing), others.rows(ledger.by_tenant(id), pricing),
                    others.rows(ledger.by_class(id), pricing)});
  }
  return made;
}

}  // namespace wattle::control
