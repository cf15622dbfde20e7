// Answers of the carbon APIs, and CSV files with gaps.
#include <cmath>

#include "feeds/generation_mix.h"
#include "feeds/sources/source.h"
#include "fuzz.h"

namespace wattle::fuzz {

namespace {
std::string broken_rule(const feeds::Feed& feed) {
  if (feed.readings().empty()) return "a feed without readings was accepted";
  if (feed.step() <= Span()) return "a feed without a step was accepted";
  bool any = false;
  const Instant* before = nullptr;
  for (const auto& reading : feed.readings()) {
    if (before != nullptr && reading.from <= *before) return "readings out of order were accepted";
    before = &reading.from;
    if (!reading.value) continue;
    any = true;
    const double v = reading.value->value();
    if (!std::isfinite(v) || std::abs(v) > 10'000.0) return "an intensity outside every range was accepted";
    if (v < 0.0 && feed.label().kind == feeds::IntensityKind::Average) return "a negative average was accepted";
    const auto said = feed.at(reading.from);
    if (!said || said->value != *reading.value) return "at() does not find a reading";
  }
  return any ? "" : "a feed without a value was accepted";
}
}  // namespace

std::vector<std::string> seeds() {
  return {
      R"({"zone":"DE","history":[{"carbonIntensity":302,"datetime":"2024-10-27T00:00:00.000Z","isEstimated":true},)"
      R"({"carbonIntensity":null,"datetime":"2024-10-27T01:00:00.000Z","emissionFactorType":"direct"},)"
      R"({"carbonIntensity":298.5,"datetime":"2024-10-27T02:00:00Z"}],"temporalGranularity":"hourly"})",
      R"({"data":[{"point_time":"2023-07-15T00:00:00+00:00","value":870.4},{"point_time":"2023-07-15T00:05:00Z",)"
      R"("value":0}],"meta":{"region":"X","signal_type":"co2_moer","units":"lbs_co2_per_mwh",)"
      R"("data_point_period_seconds":300,"generated_at":"2023-07-15T00:00:00Z"}})",
      R"({"items":[{"datetime_beginning_utc":"2024-11-03T05:55:00","pnode_id":1,"marginal_co2_rate":1000.0},)"
      R"({"datetime_beginning_utc":"2024-11-03T06:00:00","pnode_id":1,"marginal_co2_rate":-8353}],"totalRows":5})",
      R"({"data":[{"from":"2018-01-20T12:00Z","to":"2018-01-20T12:30Z","intensity":{"forecast":266,"actual":263}}]})",
      R"([{"location":"w","time":"2022-08-01T00:00:00Z","rating":533.4,"duration":"00:05:00"}])",
      "datetime_utc,ci_direct_gco2_kwh,estimated\n2023-11-01 00:00:00,274.38,0\n2023-11-01 01:00:00,,0\n"
      "2023-11-01 02:00:00,289.01,1\n2023-11-01 03:00:00,289.01,1\n",
      "datetime_utc,wind_mw,solar_mw,hydro_mw,oil_mw,gas_mw,coal_mw,nuclear_mw,other_mw\n"
      "2022-01-01 00:00:00,3130,1367,2304,44,6764,19,2265,189\n2022-01-01 01:00:00,3013,-5,2723,42,8603,19,2265,1\n",
      "INTERVALSTARTTIME_GMT,INTERVALENDTIME_GMT,VALUE\n2024-05-09 07:00:00,2024-05-09 07:05:00,48.469\n"
      "2024-05-09 07:05:00,2024-05-09 07:10:00,-59.33909\n"};
}

Verdict parse(std::string_view input) {
  using feeds::Source;
  Verdict verdict;
  const auto judge = [&](const Result<feeds::Feed>& feed) {
    const Verdict one = feed ? Verdict{true, broken_rule(*feed)} : rejected(feed.error(), "fuzz");
    verdict.accepted |= one.accepted;
    if (verdict.broken_rule.empty()) verdict.broken_rule = one.broken_rule;
  };
  if (input.find('{') != std::string_view::npos) {
    for (const auto source :
         {Source::ElectricityMaps, Source::WattTime, Source::Pjm, Source::UkCarbonIntensity, Source::CarbonAware}) {
      feeds::Query query;
      query.source = source;
      judge(feeds::parse_answer(query, input, "fuzz"));
    }
    return verdict;
  }
  judge(feeds::parse_feed_csv(feeds::electricity_maps_direct(), {"s", "z", {}, {}}, input, "fuzz"));
  judge(feeds::parse_generation_mix(feeds::ipcc_lifecycle(), {"s", "z", {}, {}}, input, "fuzz"));
  const auto price = carbon::parse_series<UsdPerMwh>(carbon::caiso_price(), input, "fuzz");
  if (price) {
    verdict.accepted = true;
    for (const auto& point : price->points()) {
      if (!std::isfinite(point.value.value())) verdict.broken_rule = "a price that is no number was accepted";
    }
  } else if (const Verdict no = rejected(price.error(), "fuzz"); !no.broken_rule.empty()) {
    verdict = no;
  }
  return verdict;
}

}  // namespace wattle::fuzz
