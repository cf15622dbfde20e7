// The keys of [[site]].
#include "config/records.h"

namespace wattle::config {

namespace {

const std::vector<Option<IntensityOptions>>& intensity_options() {
  using I = IntensityOptions;
  static const std::vector<Option<I>> options{
      option("file", &I::file,
             "CSV of carbon intensity, or a stored answer of the source below; a relative path is looked up in "
             "WATTLE_DATA, then beside the scenario. Where it has a gap the intensity is unknown"),
      option("column", &I::column,
             "Its column of g/kWh, average or marginal; MOER: WattTime's, lbs/MWh. Empty: Electricity Maps' direct "
             "emissions"),
      choice("source", &I::source,
             {"", "electricity-maps", "watttime", "pjm", "uk", "carbon-aware", "csv-direct", "csv-lifecycle",
              "csv-watttime", "csv-eia", "eia-mix"},
             "Whose answer the file is, as for wattle carbon; without a file a live gateway or planner asks the source "
             "itself, and simulations are refused. Empty: the file is a CSV, see the column"),
      option("zone", &I::zone, "Zone, region, node id or location, by the source's own name"),
      choice("kind", &I::kind, {"", "average", "marginal"},
             "Which of its signals is meant; a file of the other kind is refused. Empty: the one it has, of both the "
             "average for intensity_ and the marginal for decision_"),
      choice("scope", &I::scope, {"", "lifecycle", "direct"},
             "Emissions that are counted; a file that counts others is refused. Empty: lifecycle where a source is "
             "asked, else those of the file"),
      option("key_file", &I::key_file, "Holds the source's key. Empty: its environment variable does"),
      option("base_url", &I::base_url, "Asked instead of the provider: a proxy, or your own Carbon Aware SDK"),
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
            option("site.name", &S::name, "What fleet.site, the journal and the report call it").must(),
            option("site.start", &S::start,
                   "The time, UTC, at which the run begins in the files below, such as 2024-05-10 18:00; empty: with "
                   "their "
                   "first row, and live: now"),
            option(
                "site.intensity_g_per_kwh", &S::intensity, "g/kWh", {0, 10'000},
                "Carbon intensity of the site's electricity, CO2 equivalents, where neither file nor source says it. "
                "intensity_ is what the ledger goes by, decision_ what plans do; where that is not stated, the former"),
            option("site.source_refresh_s", &S::refresh, "s", {0.1, 86'400}, "Between two questions to a source"),
            option(
                "site.source_max_age_s", &S::max_age, "s", {0, 86'400},
                "For so long a source's last value holds after its own step has ended; then the intensity is unknown"),
            option("site.source_timeout_s", &S::timeout, "s", {0.1, 600}, "For a source to answer"),
            option(
                "site.electricity_file", &S::electricity_file,
                "CSV of electricity's price in equal steps, looked up as intensity_file; beyond its end the price is "
                "unknown. Empty: electricity_usd_per_mwh"),
            option("site.electricity_column", &S::electricity_column,
                   "Its column of USD/MWh. Empty: VALUE, as CAISO has it"),
            option("site.electricity_usd_per_mwh", &S::electricity, "USD/MWh", {-10'000, 100'000},
                   "Price of electricity where no file says it; 0: it is within the GPUs' price"),
            option(
                "site.zone", &S::zone,
                "Its column in the table of round trips, cloud-regions/gcp_latency_matrix.csv in WATTLE_DATA, such as "
                "US-MIDA-PJM: a request then takes the trip from its tenant's site. All sites or none"),
            option("site.gpu_usd_per_h", &S::gpu, "USD/h", {0, 10'000},
                   "Price of one GPU, from its instance's start on"),
        });
    return all;
  }();
  return options;
}

}  // namespace wattle::config
