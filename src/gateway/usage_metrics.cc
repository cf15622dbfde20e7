#include "gateway/usage_metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <vector>

namespace wattle::gateway {

namespace {

/// One family after the other; unknown values leave no sample.
class Families {
 public:
  explicit Families(std::string_view model) : model_(escaped_label(model)) {}

  /// `help` goes on with what holds for all of them.
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    fmt::format_to(std::back_inserter(out_), "# HELP {0} {1}; no sample where nobody metered it\n# TYPE {0} {2}\n",
                   name, help, type);
  }
  template <typename Quantity>
  void sample(const char* label, std::string_view of, Quantity quantity) {
    if (std::isnan(quantity.value())) return;
    fmt::format_to(std::back_inserter(out_), "{}{{model=\"{}\"", name_, model_);
    if (label != nullptr) fmt::format_to(std::back_inserter(out_), ",{}=\"{}\"", label, escaped_label(of));
    fmt::format_to(std::back_inserter(out_), "}} {}\n", quantity.value());
  }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::string model_;
  std::string out_;
  const char* name_ = "";
};

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

std::string usage_metrics(const journal::Consumption& used, std::string_view model) {
  Families out(model);
  out.family("wattle_gateway_energy_joules_total", "counter", "Energy booked, by what the GPUs did meanwhile");
  out.sample("part", "prefill", used.energy.prefill);
  out.sample("part", "decode", used.energy.decode);
  out.sample("part", "idle", used.energy.idle);
  out.sample("part", "residue", used.energy.residue);
  // Gauges: a marginal intensity, or a price, may be negative, and then these fall.
  out.family("wattle_gateway_carbon_grams", "gauge", "CO2 equivalent of that energy, by its site's intensity");
  out.sample(nullptr, "", used.carbon);
  out.family("wattle_gateway_cost_usd", "gauge", "Cost of that energy and of the GPUs' time, where prices are stated");
  out.sample(nullptr, "", used.cost);

  struct Table {
    const char* label;
    const std::vector<journal::UsageRow>& rows;
    const char *energy, *carbon, *cost;
  };
  for (const Table& table : {Table{"tenant", used.by_tenant, "wattle_gateway_tenant_energy_joules_total",
                                   "wattle_gateway_tenant_carbon_grams", "wattle_gateway_tenant_cost_usd"},
                             Table{"class", used.by_class, "wattle_gateway_class_energy_joules_total",
                                   "wattle_gateway_class_carbon_grams", "wattle_gateway_class_cost_usd"}}) {
    out.family(table.energy, "counter", "Energy of requests that are over");
    for (const auto& row : table.rows) out.sample(table.label, row.name, row.energy);
    out.family(table.carbon, "gauge", "CO2 equivalent of requests that are over");
    for (const auto& row : table.rows) out.sample(table.label, row.name, row.carbon);
    out.family(table.cost, "gauge", "Cost of requests that are over, where prices are stated");
    for (const auto& row : table.rows) out.sample(table.label, row.name, row.cost);
  }
  return out.take() + fmt::format(
                          "# HELP wattle_gateway_unmetered_seconds_total Instance time that nobody metered\n"
                          "# TYPE wattle_gateway_unmetered_seconds_total counter\n"
                          "wattle_gateway_unmetered_seconds_total {}\n",
                          used.unmetered_s);
}

}  // namespace wattle::gateway
