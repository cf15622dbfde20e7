#include "carbon/series.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/timestamp.h"

namespace wattle::carbon {

namespace {
constexpr const char* kHourly =
    "datetime_utc,ci_direct_gco2_kwh,ci_lifecycle_gco2_kwh,low_carbon_pct,renewable_pct,estimated\n"
    "2023-11-01 00:00:00,274.38,351.66,39.19,32.64,0\n"
    "2023-11-01 01:00:00,293.02,374.49,34.73,27.37,0\n"
    "2023-11-01 02:00:00,289.01,370.66,35.29,27.23,0\n";

std::string error_of(const SeriesForm& form, std::string_view text) {
  const auto series = parse_series<GramsPerKwh>(form, text, "ci.csv");
  EXPECT_FALSE(series.has_value());
  return series ? "" : series.error().message();
}

IntensitySeries must(Result<IntensitySeries> series) {
  EXPECT_TRUE(series.has_value()) << series.error().message();
  return std::move(*series);
}

Instant hours(std::int64_t n) { return Instant() + Span::s(3600 * n); }
}  // namespace

TEST(Intensity, AConstantHoldsEverywhere) {
  const auto series = IntensitySeries::constant(GramsPerKwh(400.0));
  EXPECT_EQ(series.at(Instant()).value(), 400.0);
  EXPECT_EQ(series.at(Instant::never()).value(), 400.0);
  EXPECT_EQ(series.next_change_after(Instant(-5)), Instant::never());
  EXPECT_TRUE(series.covers(Instant(-5)));
}

TEST(Intensity, AGapIsNotCovered) {
  const GramsPerKwh one(1.0);
  const auto series =
      must(IntensitySeries::from_points({{hours(0), one}, {hours(1), one, false}, {hours(3), one}}, hours(4)));
  EXPECT_TRUE(series.covers(hours(0)));
  EXPECT_FALSE(series.covers(hours(1)));
  EXPECT_FALSE(series.covers(hours(3) - Span::ns(1)));
  EXPECT_TRUE(series.covers(hours(3)));
  EXPECT_EQ(series.holds_until(hours(1)), hours(3));
  EXPECT_EQ(series.holds_until(hours(3)), hours(4)) << "what is known ends there";
  EXPECT_EQ(series.holds_until(hours(4)), Instant::never());
  const auto nothing = IntensitySeries::unknown(one);
  EXPECT_FALSE(nothing.covers(hours(0)));
  EXPECT_EQ(nothing.at(hours(7)), one);
}

TEST(Intensity, CountsFromAnotherOrigin) {
  const auto series = must(IntensitySeries::from_points(
      {{hours(0), GramsPerKwh(1.0)}, {hours(1), GramsPerKwh(2.0)}, {hours(3), GramsPerKwh(3.0), false}}, hours(4)));
  const auto later = series.from(hours(1));
  EXPECT_EQ(later.at(hours(-1)).value(), 1.0);
  EXPECT_EQ(later.at(hours(0)).value(), 2.0);
  EXPECT_TRUE(later.covers(hours(-1)) && !later.covers(hours(-2)) && !later.covers(hours(2)));
  EXPECT_EQ(later.end(), hours(3));
  EXPECT_TRUE(IntensitySeries::constant(GramsPerKwh(4.0)).from(hours(9)).covers(hours(99)));
}

TEST(Intensity, HourlyStepsHoldUntilTheNext) {
  const auto series = must(parse_series<GramsPerKwh>(electricity_maps_direct(), kHourly, "ci.csv"));
  EXPECT_EQ(series.at(hours(0)).value(), 274.38);
  EXPECT_EQ(series.at(hours(1) - Span::ns(1)).value(), 274.38);
  EXPECT_EQ(series.at(hours(1)).value(), 293.02);
  EXPECT_EQ(series.at(hours(50)).value(), 289.01);
  EXPECT_EQ(series.at(hours(-50)).value(), 274.38);
  EXPECT_EQ(series.next_change_after(hours(-50)), hours(1));  // hour 0 brings no new value
  EXPECT_EQ(series.next_change_after(hours(0)), hours(1));
  EXPECT_EQ(series.next_change_after(hours(1)), hours(2));
  EXPECT_EQ(series.next_change_after(hours(2)), Instant::never());
  EXPECT_TRUE(series.covers(hours(3) - Span::ns(1)));
  EXPECT_FALSE(series.covers(hours(3)));
  EXPECT_FALSE(series.covers(hours(-1)));
}

TEST(Intensity, TheOriginIsAWallClockTime) {
  const auto origin = parse_timestamp("2023-11-01 01:30:00");
  const auto series = must(parse_series<GramsPerKwh>(electricity_maps_lifecycle(), kHourly, "ci.csv", origin));
  EXPECT_EQ(series.at(Instant()).value(), 374.49);
  EXPECT_EQ(series.next_change_after(Instant()), Instant() + Span::s(1800));
  const auto late =
      parse_series<GramsPerKwh>(electricity_maps_direct(), kHourly, "ci.csv", parse_timestamp("2023-11-01 03:00:00"));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().where, "ci.csv");
  EXPECT_NE(late.error().what.find("choose a start within"), std::string::npos);
}

TEST(Intensity, KnowsThePortalsHeadersAndWattTimesUnits) {
  const auto portal =
      must(parse_series<GramsPerKwh>(electricity_maps_direct(),
                                     "Datetime (UTC),Zone name,Carbon intensity gCO\u2082eq/kWh (direct)\r\n"
                                     "2024-01-01 00:00:00,GB,100\r\n2024-01-01 01:00:00,GB,110\r\n",
                                     "ci.csv"));
  EXPECT_EQ(portal.at(hours(1)).value(), 110.0);
  const auto moer = must(parse_series<GramsPerKwh>(
      watttime_moer(), "timestamp,MOER\n2023-06-08 00:00:00+00:00,1000\n2023-06-08 00:05:00+00:00,900\n", "ci.csv"));
  EXPECT_NEAR(moer.at(Instant()).value(), 453.59237, 1e-9);
  const auto grams = must(
      parse_series<GramsPerKwh>(grams_column("Caiso_North"),
                                "oootime,Caiso_North\n2023-06-08 00:00:00,425.5\n2023-06-08 00:05:00,432\n", "ci.csv"));
  EXPECT_EQ(grams.at(Instant()).value(), 425.5);
  must(
      parse_series<GramsPerKwh>(grams_column("ci"), "datetime,ci\n2023-06-08 00:00,4\n2023-06-08 01:00,5\n", "ci.csv"));
  EXPECT_EQ(grams.next_change_after(Instant()), Instant() + Span::s(300));
}

TEST(Intensity, RefusesBadFiles) {
  const auto form = grams_column("ci");
  const std::string head = "time,ci\n2023-06-08 00:00:00,1\n2023-06-08 00:05:00,1\n";
  EXPECT_EQ(error_of(form, ""),
            "ci.csv: is empty; expected a header line with oootime|time|timestamp|point_time|datetime|datetime_utc|"
            "Datetime (UTC)|INTERVALSTARTTIME_GMT,ci");
  EXPECT_EQ(error_of(form, "time\n"), "ci.csv:1: the header has no column 'ci'; it has 'time'");
  EXPECT_EQ(error_of(form, "time,ci\n2023-06-08 00:00:00,1\n"),
            "ci.csv:2: has fewer than two rows, so the length of a step is unknown");
  EXPECT_EQ(error_of(form, head + "2023-06-08 00:05:00,1\n"),
            "ci.csv:4: time is '2023-06-08 00:05:00'; it does not lie after the row above; sort by time");
  EXPECT_EQ(error_of(form, head + "2023-06-08 00:15:00,1\n"),
            "ci.csv:4: time is '2023-06-08 00:15:00'; it lies 600 s after the row above, the rows before were 300 s "
            "apart; fill the gap or cut the file there");
  EXPECT_EQ(
      error_of(form, "time,ci\n2023-06-08 00:00:00,1\n2023-06-08 00:10:00,1\n2023-06-08 00:15:00,1\n"),
      "ci.csv:3: lies 600 s after the row above, the next row 300 s after it; fill the gap or begin the file here");
  EXPECT_EQ(error_of(form, "time,ci\n1970-06-08 00:00:00,1\n2261-06-08 00:00:00,1\n"),
            "ci.csv:3: time is '2261-06-08 00:00:00'; it lies more than 31 days after the row above; check both");
  EXPECT_EQ(error_of(form, head + "2023-06-08,1\n"),
            "ci.csv:4: time is '2023-06-08'; it must be a time like 2024-01-01 00:00:00 (UTC)");
  for (const char* bad : {"", "nan", "inf", "-5001", "5001", "x"}) {
    EXPECT_EQ(error_of(form, head + "2023-06-08 00:10:00," + bad + "\n"),
              "ci.csv:4: ci is '" + std::string(bad) + "'; it must be a number from -5000 to 5000");
  }
  const auto marginal = parse_series<GramsPerKwh>(form, head + "2023-06-08 00:10:00,-20\n", "ci.csv");
  ASSERT_TRUE(marginal) << marginal.error().message();
  EXPECT_EQ(marginal->points().back().value, GramsPerKwh(-20.0));
  const auto average = parse_series<GramsPerKwh>(
      electricity_maps_direct(), "datetime_utc,ci_direct_gco2_kwh\n2023-06-08 00:00:00,1\n2023-06-08 01:00:00,-1\n",
      "em.csv");
  ASSERT_FALSE(average);
  EXPECT_EQ(average.error().message(), "em.csv:3: ci_direct_gco2_kwh is '-1'; it must be a number from 0 to 5000");
  EXPECT_EQ(error_of(form, head + "2023-06-08 00:10:00"),
            "ci.csv:4: has 1 field where the header has 2; is the file cut short? Remove or complete its last line");
  const auto missing = load_series<GramsPerKwh>(form, "/no/such/ci.csv");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().where, "/no/such/ci.csv");
}

TEST(Intensity, TheStartMayLieLongAfterTheOrigin) {
  // A machine that has run for 400 days: its Instant 0 lies before the data, its present within.
  const auto now = parse_timestamp("2023-11-01 01:30:00");
  const Instant uptime = Instant() + Span::s(400 * 86'400);
  const auto series =
      must(parse_series<GramsPerKwh>(electricity_maps_direct(), kHourly, "ci.csv", *now - uptime.ns(), uptime));
  EXPECT_EQ(series.at(uptime).value(), 293.02);
  EXPECT_FALSE(parse_series<GramsPerKwh>(electricity_maps_direct(), kHourly, "ci.csv", *now, uptime));
}

TEST(Intensity, PricesMayBeNegative) {
  const auto series = parse_series<UsdPerMwh>(caiso_price(),
                                              "INTERVALSTARTTIME_GMT,INTERVALENDTIME_GMT,VALUE\n"
                                              "2024-05-09 07:00:00,2024-05-09 07:05:00,48.469\n"
                                              "2024-05-09 07:05:00,2024-05-09 07:10:00,-12.5\n",
                                              "p.csv");
  ASSERT_TRUE(series) << series.error().message();
  EXPECT_EQ(series->at(Instant() + Span::s(300)).value(), -12.5);
}

TEST(Intensity, RefusesBadPoints) {
  EXPECT_FALSE(IntensitySeries::from_points({}).has_value());
  const GramsPerKwh one(1.0);
  const auto twice = IntensitySeries::from_points({{Instant(1), one}, {Instant(1), one}});
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().where, "point 1");
  EXPECT_FALSE(
      IntensitySeries::from_points({{Instant(1), GramsPerKwh(std::numeric_limits<double>::quiet_NaN())}}).has_value());
  EXPECT_FALSE(IntensitySeries::from_points({{Instant(1), one}}, Instant(1)).has_value());
}

RC_GTEST_PROP(Intensity, BetweenChangesNothingChanges, ()) {
  const auto gaps =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 50)));
  std::vector<IntensitySeries::Point> points;
  std::int64_t at = 0;
  for (const auto gap : gaps) points.push_back({Instant(at += gap), GramsPerKwh(static_cast<double>(at))});
  const auto series = IntensitySeries::from_points(points);
  RC_ASSERT(series.has_value());
  std::size_t changes = 0;
  for (Instant t(0); t != Instant::never();) {
    const Instant next = series->next_change_after(t);
    RC_ASSERT(next > t);
    const Instant last = next == Instant::never() ? t + Span::s(1) : next - Span::ns(1);
    RC_ASSERT(series->at(t) == series->at(last));
    if (next != Instant::never()) {
      RC_ASSERT(series->at(next) != series->at(t));
      ++changes;
    }
    t = next;
  }
  RC_ASSERT(changes == points.size() - 1);
}

TEST(Intensity, RealFiles) {
  const char* data = std::getenv("WATTLE_DATA");
  if (data == nullptr) GTEST_SKIP() << "WATTLE_DATA is not set";
  const std::string root(data);
  const auto mean = [](const IntensitySeries& s) {
    double sum = 0.0;
    for (const auto& point : s.points()) sum += point.value.value();
    return sum / static_cast<double>(s.points().size());
  };
  // Expected counts and means: the data sets' own notes.
  const auto california = must(load_series<GramsPerKwh>(electricity_maps_direct(),
                                                        root + "/carbon-electricitymaps-hourly/US-CAL-CISO_2024.csv"));
  EXPECT_EQ(california.points().size(), 8784U);
  EXPECT_NEAR(mean(california), 169.0, 1.0);
  const auto lifecycle =
      must(load_series<GramsPerKwh>(electricity_maps_lifecycle(), root + "/carbon-electricitymaps-hourly/ZA_2024.csv"));
  EXPECT_NEAR(mean(lifecycle), 713.0, 0.5);
  const auto caiso = must(
      load_series<GramsPerKwh>(grams_column("Caiso_North"), root + "/carbon-watttime-caiso-5min/watttime_example.csv"));
  EXPECT_EQ(caiso.points().size(), 8928U);
  EXPECT_NEAR(mean(caiso), 355.0, 0.5);
  const auto price = load_series<UsdPerMwh>(caiso_price(), root + "/caiso-price-5min/CAISO_20240509_20240521.csv");
  ASSERT_TRUE(price) << price.error().message();
  EXPECT_EQ(price->points().size(), 3468U);
  EXPECT_EQ(price->at(Instant()).value(), 48.469);
  EXPECT_EQ(std::ranges::min(price->points(), {}, [](const auto& p) { return p.value.value(); }).value.value() < -56.0,
            true);
}

}  // namespace wattle::carbon
