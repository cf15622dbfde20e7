// The keys of [[site]].
#include "config/records.h"

namespace wattle::config {

namespace {

const std::vector<Option<IntensityOptions>>& intensity_options() {
  using I = IntensityOptions;
  static const std::vector<Option<I>> options{
      option("file", &I::file,
             "CSV of carbon intensity, or a stored response of the source below. A relative path is looked up in "
             "WATTLE_DATA, then next to the scenario. In gaps of the file the intensity is unknown"),
      option("column", &I::column,
             "Column of that CSV, in g/kWh (average or marginal); MOER: WattTime's, in lbs/MWh. Empty: Electricity "
             "Maps' direct emissions"),
      choice("source", &I::source,
             {"", "electricity-maps", "watttime", "pjm", "uk", "carbon-aware", "csv-direct", "csv-lifecycle",
              "csv-watttime", "csv-eia", "eia-mix"},
             "Provider or format of the file, as for `wattle carbon`. Without a file, a live gateway or planner "
             "queries the provider, and simulations are refused. Empty: the file is a CSV as described by column"),
      option("zone", &I::zone, "Zone, region, node id or location, as the provider names it"),
      choice("kind", &I::kind, {"", "average", "marginal"},
             "Signal to use; a file of the other kind is refused. Empty: the one available or, if both are, average "
             "for intensity_ and marginal for decision_"),
      choice("scope", &I::scope, {"", "lifecycle", "direct"},
             "Emissions to count; a file with the other scope is refused. Empty: lifecycle when a provider is queried, "
             "otherwise what the file has"),
      option("key_file", &I::key_file, "File with the provider's API key. Empty: its environment variable has it"),
      option("base_url", &I::base_url, "URL to query instead of the provider's: a proxy, or your own Carbon Aware SDK"),
  };
  return options;
}

}  // namespace

const std::vector<Option<SiteOptions>>& site_options() {
  using S = SiteOptions;
  static const std::vector<Option<SiteOptions>> options = [] {
    std::vector<Option<SiteOptions>> all;
    append<S>(all, "site.intensity_", {&S::books}, intensity_options());
    append<S>(all, "site.decision_", {&S::decisions}, intensity_options());
    all.insert(
        all.end(),
        {
            option("site.name", &S::name, "Name used by fleet.site, in the journal and in reports").must(),
            option("site.start", &S::start,
                   "UTC time in the files below at which the run starts, such as 2024-05-10 18:00. Empty: the time of "
                   "their first row; live: now"),
            option(
                "site.intensity_g_per_kwh", &S::intensity, "g/kWh", {0, 10'000},
                "Carbon intensity, in CO2 equivalents, where neither file nor source gives one. Keys with intensity_ "
                "are for accounting, those with decision_ for planning; without the latter plans use the former"),
            option("site.source_refresh_s", &S::refresh, "s", {0.1, 86'400}, "Time between two queries to a provider"),
            option("site.source_max_age_s", &S::max_age, "s", {0, 86'400},
                   "How long a provider's last value stays valid after the interval it is for. After that the "
                   "intensity is unknown"),
            option("site.source_timeout_s", &S::timeout, "s", {0.1, 600}, "Timeout of a query to a provider"),
            option("site.electricity_file", &S::electricity_file,
                   "CSV of electricity prices in equal time steps, looked up like intensity_file. After its end the "
                   "price is unknown. Empty: electricity_usd_per_mwh"),
            option("site.electricity_column", &S::electricity_column,
                   "Column of that CSV, in USD/MWh. Empty: VALUE, as in CAISO's files"),
            option("site.electricity_usd_per_mwh", &S::electricity, "USD/MWh", {-10'000, 100'000},
                   "Price of electricity without a file. 0: included in the price of the GPUs"),
            option("site.zone", &S::zone,
                   "Column of this site in the table of round-trip times, cloud-regions/gcp_latency_matrix.csv in "
                   "WATTLE_DATA, such as US-CAL-CISO. Requests then take the round trip from their tenant's site. "
                   "State it for all sites or none"),
            option("site.gpu_usd_per_h", &S::gpu, "USD/h", {0, 10'000},
                   "Price of one GPU, from the start of its instance"),
        });
    return all;
  }();
  return options;
}

}  // namespace wattle::config
