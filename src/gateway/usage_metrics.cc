#include "gateway/usage_metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace wattle::gateway {

namespace {

using Label = std::pair<const char*, std::string_view>;

/// One family after the other; unknown values leave no sample.
class Families {
 public:
  /// `help` goes on with what holds for all of them.
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    fmt::format_to(std::back_inserter(out_), "# HELP {0} {1}; no sample where nobody metered it\n# TYPE {0} {2}\n",
                   name, help, type);
  }
  template <typename Quantity>
  void sample(std::initializer_list<Label> labels, Quantity quantity) {
    if (std::isnan(quantity.value())) return;
    out_ += name_;
    char before = '{';
    for (const auto& [label, of] : labels) {
      fmt::format_to(std::back_inserter(out_), "{}{}=\"{}\"", before, label, escaped_label(of));
      before = ',';
    }
    fmt::format_to(std::back_inserter(out_), "{} {}\n", labels.size() == 0 ? "" : "}", quantity.value());
  }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::string out_;
  const char* name_ = "";
};

/// Families of rows of each model: energy, carbon and cost.
struct Table {
  const char* label;  ///< beside the model's; null: none
  std::vector<journal::UsageRow> control::ModelUsage::*rows;
  const char *energy, *carbon, *cost;
};

template <typename Quantity>
void samples(Families& out, std::span<const control::ModelUsage> models, const Table& table,
             Quantity journal::UsageRow::*value) {
  for (const control::ModelUsage& model : models) {
    if (table.label == nullptr) {
      out.sample({{"model", model.all.name}}, model.all.*value);
      continue;
    }
    for (const auto& row : model.*table.rows) {
      out.sample({{"model", model.all.name}, {table.label, row.name}}, row.*value);
    }
  }
}

}  // namespace

std::string escaped_label(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string intensity_metrics(std::span<const SiteIntensity> sites) {
  if (sites.empty()) return "";
  std::string known =
      "# HELP wattle_gateway_site_intensity_known 1: a site's carbon intensity is known now; 0: its energy counts as "
      "of "
      "unknown carbon\n# TYPE wattle_gateway_site_intensity_known gauge\n";
  std::string grams =
      "# HELP wattle_gateway_site_intensity_grams_per_kwh What a site's energy is booked at now; no sample while it is "
      "unknown\n# TYPE wattle_gateway_site_intensity_grams_per_kwh gauge\n";
  for (const SiteIntensity& site : sites) {
    const std::string label = fmt::format("{{site=\"{}\"}}", escaped_label(site.name));
    fmt::format_to(std::back_inserter(known), "wattle_gateway_site_intensity_known{} {}\n", label, site.now ? 1 : 0);
    if (!site.now) continue;
    fmt::format_to(std::back_inserter(grams), "wattle_gateway_site_intensity_grams_per_kwh{} {}\n", label,
                   site.now->value());
  }
  return known + grams;
}

std::string usage_metrics(const journal::Consumption& used, std::span<const control::ModelUsage> models) {
  Families out;
  // An engine serves all models that clients may ask for: only requests' shares are a model's.
  out.family("wattle_gateway_energy_joules_total", "counter", "Energy booked, by what the GPUs did meanwhile");
  out.sample({{"part", "prefill"}}, used.energy.prefill);
  out.sample({{"part", "decode"}}, used.energy.decode);
  out.sample({{"part", "idle"}}, used.energy.idle);
  // A gauge: what it holds of prompts under way goes to `prefill` as they are through.
  out.family("wattle_gateway_energy_residue_joules", "gauge",
             "Energy beside that: of prompts under way, and of work that nobody was left to pay for");
  out.sample({}, used.energy.residue);
  // Gauges: a marginal intensity, or a price, may be negative, and then these fall.
  out.family("wattle_gateway_carbon_grams", "gauge", "CO2 equivalent of that energy, by its site's intensity");
  out.sample({}, used.carbon);
  out.family("wattle_gateway_energy_of_unknown_carbon_joules_total", "counter",
             "Of that energy: drawn while its site's intensity was unknown; its grams are by the last one known");
  out.sample({}, used.energy.unknown_carbon);
  out.family(
      "wattle_gateway_energy_of_unknown_price_joules_total", "counter",
      "Of that energy: drawn while its site's price of electricity was unknown; its cost is by the last one known");
  out.sample({}, used.energy.unknown_price);
  out.family("wattle_gateway_cost_usd", "gauge", "Cost of that energy and of the GPUs' time, where prices are stated");
  out.sample({}, used.cost);

  for (const Table& table :
       {Table{nullptr, nullptr, "wattle_gateway_model_energy_joules_total", "wattle_gateway_model_carbon_grams",
              "wattle_gateway_model_cost_usd"},
        Table{"tenant", &control::ModelUsage::by_tenant, "wattle_gateway_tenant_energy_joules_total",
              "wattle_gateway_tenant_carbon_grams", "wattle_gateway_tenant_cost_usd"},
        Table{"class", &control::ModelUsage::by_class, "wattle_gateway_class_energy_joules_total",
              "wattle_gateway_class_carbon_grams", "wattle_gateway_class_cost_usd"}}) {
    out.family(table.energy, "counter", "Energy of requests that are over");
    samples(out, models, table, &journal::UsageRow::energy);
    out.family(table.carbon, "gauge", "CO2 equivalent of requests that are over");
    samples(out, models, table, &journal::UsageRow::carbon);
    out.family(table.cost, "gauge", "Cost of requests that are over, where prices are stated");
    samples(out, models, table, &journal::UsageRow::cost);
  }
  return out.take() + fmt::format(
                          "# HELP wattle_gateway_unmetered_seconds_total Instance time that nobody metered\n"
                          "# TYPE wattle_gateway_unmetered_seconds_total counter\n"
                          "wattle_gateway_unmetered_seconds_total {}\n",
                          used.unmetered_s);
}

}  // namespace wattle::gateway
