#include "feeds/sources/source.h"

#include <gtest/gtest.h>

#include "base/timestamp.h"

namespace wattle::feeds {

namespace {
Instant utc(std::string_view text) {
  const auto ns = parse_timestamp(text);
  EXPECT_TRUE(ns.has_value()) << text;
  return Instant(ns.value_or(0));
}

Query query(Source source, std::string zone, IntensityKind kind = IntensityKind::Average) {
  Query q;
  q.source = source;
  q.zone = std::move(zone);
  q.kind = kind;
  return q;
}

Feed must(const Query& q, std::string_view json) {
  auto feed = parse_answer(q, json, "answer");
  EXPECT_TRUE(feed.has_value()) << feed.error().message();
  return std::move(*feed);
}

std::string error_of(const Query& q, std::string_view json) {
  const auto feed = parse_answer(q, json, "answer");
  EXPECT_FALSE(feed.has_value());
  return feed ? "" : feed.error().message();
}

constexpr const char* kElectricityMapsHistory = R"({"zone":"DE","history":[
  {"zone":"DE","carbonIntensity":302,"datetime":"2024-10-27T00:00:00.000Z","updatedAt":"2024-10-27T02:00:00.000Z",
   "emissionFactorType":"lifecycle","isEstimated":true,"estimationMethod":"TIME_SLICER_AVERAGE"},
  {"zone":"DE","carbonIntensity":null,"datetime":"2024-10-27T01:00:00.000Z","emissionFactorType":"lifecycle",
   "isEstimated":false,"estimationMethod":null},
  {"zone":"DE","carbonIntensity":298.5,"datetime":"2024-10-27T02:00:00.000Z","emissionFactorType":"lifecycle",
   "isEstimated":false,"estimationMethod":null}],"temporalGranularity":"hourly"})";

constexpr const char* kWattTimeForecast = R"({"data":[
  {"point_time":"2023-07-15T00:00:00+00:00","value":870.4},{"point_time":"2023-07-15T00:05:00+00:00","value":0}],
  "meta":{"data_point_period_seconds":300,"region":"CAISO_NORTH","signal_type":"co2_moer","units":"lbs_co2_per_mwh",
  "warnings":[],"model":{"date":"2023-03-01","type":"binned_regression"},"generated_at":"2023-07-15T00:00:00+00:00",
  "generated_at_period_seconds":300}})";
}  // namespace

TEST(ElectricityMaps, LatestHistoryPastRangeAndForecast) {
  const Query de = query(Source::ElectricityMaps, "DE");
  const Feed latest = must(de, R"({"zone":"DE","carbonIntensity":302,"datetime":"2024-04-25T18:00:00.000Z",
    "emissionFactorType":"direct","isEstimated":true,"temporalGranularity":"15_minutes"})");
  EXPECT_EQ(latest.step(), Span::s(900));
  EXPECT_EQ(latest.label().scope, EmissionScope::Direct);
  EXPECT_TRUE(latest.at(utc("2024-04-25 18:14:59"))->estimated);
  EXPECT_FALSE(latest.at(utc("2024-04-25 18:15:00")).has_value());
  const Feed history = must(de, kElectricityMapsHistory);
  EXPECT_EQ(history.label().kind, IntensityKind::Average);
  EXPECT_EQ(history.at(utc("2024-10-27 02:10:00"))->value.value(), 298.5);
  EXPECT_FALSE(history.at(utc("2024-10-27 01:10:00")).has_value());  // null is no zero
  const Feed range = must(de, R"({"zone":"DE","data":[{"carbonIntensity":1,"datetime":"2024-01-01T00:00:00Z"},
    {"carbonIntensity":2,"datetime":"2024-01-01T01:00:00Z"}]})");
  EXPECT_EQ(range.readings().size(), 2U);
  const Feed forecast = must(de, R"({"zone":"DE","forecast":[{"carbonIntensity":300,"datetime":"2024-01-01T00:00:00Z"},
    {"carbonIntensity":310,"datetime":"2024-01-01T01:00:00Z"}],"updatedAt":"2023-12-31T23:00:00Z"})");
  EXPECT_TRUE(forecast.at(utc("2024-01-01 00:00:00"))->forecast);
  EXPECT_EQ(forecast.issued(), utc("2023-12-31 23:00:00"));
}

TEST(ElectricityMaps, RowsOfAnotherZoneAreLeftOutAndCounted) {
  const std::string answer = R"({"zone":"DE","history":[
    {"zone":"DE","carbonIntensity":100,"datetime":"2024-10-27T00:00:00Z"},
    {"zone":"FR","carbonIntensity":900,"datetime":"2024-10-27T01:00:00Z"},
    {"carbonIntensity":110,"datetime":"2024-10-27T02:00:00Z"}],"temporalGranularity":"hourly"})";
  for (const char* asked : {"DE", ""}) {
    const Feed feed = must(query(Source::ElectricityMaps, asked), answer);
    ASSERT_EQ(feed.readings().size(), 2U);
    EXPECT_FALSE(feed.at(utc("2024-10-27 01:00:00")).has_value()) << "France's is not Germany's";
    EXPECT_EQ(feed.at(utc("2024-10-27 02:00:00"))->value.value(), 110.0);
    ASSERT_FALSE(feed.warnings().empty());
    EXPECT_EQ(feed.warnings().front(), "1 rows of other zones left out");
  }
  EXPECT_FALSE(parse_answer(query(Source::ElectricityMaps, "DE"),
                            R"({"zone":"DE","data":[{"zone":"FR","carbonIntensity":1,"datetime":"2024-01-01T00:00:00Z"},
                                {"zone":"FR","carbonIntensity":1,"datetime":"2024-01-01T01:00:00Z"}]})",
                            "answer")
                   .has_value());
}

TEST(ElectricityMaps, BadAnswers) {
  const Query de = query(Source::ElectricityMaps, "DE");
  EXPECT_EQ(error_of(de, "<html>502</html>"), "answer: is not JSON; it begins with '<html>502</html>'");
  EXPECT_NE(error_of(de, R"({"status":"error","message":"Invalid auth-token"})").find("Invalid auth-token"),
            std::string::npos);
  EXPECT_EQ(error_of(de, R"({"zone":"FR","carbonIntensity":50,"datetime":"2024-01-01T00:00:00Z"})"),
            "answer: answers for zone 'FR', asked was 'DE'");  // the caller's own zone
  EXPECT_EQ(error_of(de, R"({"zone":"DE","history":null})"), "answer.history: must be a list");
  EXPECT_EQ(error_of(de, R"({"zone":"DE","history":[]})"), "answer: has no rows");
  EXPECT_EQ(error_of(de, R"({"zone":"DE","history":[{"carbonIntensity":"302","datetime":"2024-01-01T00:00:00Z"}]})"),
            "answer.history[0].carbonIntensity: must be a number or null");
  EXPECT_EQ(error_of(de, R"({"zone":"DE","history":[{"carbonIntensity":302,"datetime":"yesterday"}]})"),
            "answer.history[0].datetime: is 'yesterday'; it must be a time like 2024-01-01T00:00:00Z");
  EXPECT_EQ(error_of(de, R"({"zone":"DE","carbonIntensity":null,"datetime":"2024-01-01T00:00:00Z"})"),
            "answer: has no value in any row");
  EXPECT_EQ(error_of(de, "null"), "answer: must be an object with 'zone'");
  EXPECT_EQ(error_of(de, R"({"zone":"DE","carbonIntensity":NaN})"),
            "answer: is not JSON; it begins with '{\"zone\":\"DE\",\"carbonIntensity\":NaN}'");
}

TEST(Times, WithoutTheirZoneAreRefused) {
  const Query de = query(Source::ElectricityMaps, "DE");
  const std::string head = R"({"zone":"DE","carbonIntensity":302,"datetime":"2024-10-27T02:30:00)";
  EXPECT_EQ(
      error_of(de, head + "\"}"),
      "answer.datetime: is '2024-10-27T02:30:00', without its zone; it must end with Z or an offset such as +01:00");
  EXPECT_EQ(must(de, head + "+02:00\"}").begin(), utc("2024-10-27 00:30:00"));
  EXPECT_EQ(must(de, head + ".250-02:00\"}").begin(), utc("2024-10-27 04:30:00.25"));
  EXPECT_NE(error_of(query(Source::CarbonAware, "uk"), R"([{"location":"uk","time":"2024-01-01T00:00:00","rating":1}])")
                .find("without its zone"),
            std::string::npos);
}

TEST(WattTime, PoundsBecomeGramsAndZeroIsAValue) {
  const Feed feed = must(query(Source::WattTime, "CAISO_NORTH"), kWattTimeForecast);
  EXPECT_EQ(feed.label().kind, IntensityKind::Marginal);
  EXPECT_NEAR(feed.at(utc("2023-07-15 00:00:00"))->value.value(), 870.4 * 0.45359237, 1e-9);
  ASSERT_TRUE(feed.at(utc("2023-07-15 00:05:00")).has_value());
  EXPECT_EQ(feed.at(utc("2023-07-15 00:05:00"))->value.value(), 0.0);
  EXPECT_TRUE(feed.at(utc("2023-07-15 00:00:00"))->forecast);
}

TEST(WattTime, TheNewestOfSeveralForecasts) {
  const Feed feed = must(query(Source::WattTime, "X"), R"({"data":[
    {"generated_at":"2023-07-15T01:00:00Z","forecast":[{"point_time":"2023-07-15T02:00:00Z","value":20}]},
    {"generated_at":"2023-07-15T01:05:00Z","forecast":[{"point_time":"2023-07-15T02:00:00Z","value":10}]},
    {"generated_at":"2023-07-15T00:00:00Z","forecast":[{"point_time":"2023-07-15T02:00:00Z","value":30}]}],
    "meta":{"region":"X","signal_type":"co2_aoer","units":"lbs_co2_per_mwh","data_point_period_seconds":300}})");
  EXPECT_NEAR(feed.at(utc("2023-07-15 02:00:00"))->value.value(), 4.5359237, 1e-9);
  EXPECT_EQ(feed.label().kind, IntensityKind::Average);
  EXPECT_EQ(feed.issued(), utc("2023-07-15 01:05:00"));
}

TEST(WattTime, APercentileIsNoIntensity) {
  const Query caiso = query(Source::WattTime, "CAISO_NORTH");
  const std::string said = error_of(caiso, R"({"data":[{"point_time":"2023-07-15T00:00:00+00:00","value":47}],
    "meta":{"region":"CAISO_NORTH","signal_type":"co2_moer","units":"percentile","data_point_period_seconds":300}})");
  EXPECT_NE(said.find("no intensity"), std::string::npos) << said;
  EXPECT_NE(error_of(caiso, R"({"data":[],"meta":{"region":"CAISO_NORTH","signal_type":"health_damage",
    "units":"usd_per_mwh"}})")
                .find("units: is 'usd_per_mwh'"),
            std::string::npos);
  EXPECT_EQ(error_of(caiso, R"({"data":[{"point_time":"2023-07-15T00:00:00+00:00","value":47}]})"),
            "answer: has no 'meta'");
  EXPECT_NE(error_of(caiso, R"({"error":"rate_limit","message":"too many requests"})").find("too many requests"),
            std::string::npos);
}

TEST(WattTime, LoginGivesAToken) {
  EXPECT_EQ(*watttime_token(R"({"token":"abc"})", "login"), "abc");
  EXPECT_FALSE(watttime_token(R"({"token":null})", "login").has_value());
  EXPECT_FALSE(watttime_token(R"({"token":""})", "login").has_value());
  EXPECT_FALSE(watttime_token("", "login").has_value());
}

TEST(Pjm, MarginalRatesOfOneNode) {
  const char* rows = R"({"items":[
    {"datetime_beginning_utc":"2024-11-03T05:55:00","datetime_beginning_ept":"2024-11-03T01:55:00","pnode_id":1,
     "pnode_name":"PJM-RTO","marginal_co2_rate":1000.0,"marginal_so2_rate":0.1,"marginal_nox_rate":0.2},
    {"datetime_beginning_utc":"2024-11-03T06:00:00","datetime_beginning_ept":"2024-11-03T01:00:00","pnode_id":1,
     "marginal_co2_rate":-8353.0},
    {"datetime_beginning_utc":"2024-11-03T06:00:00","pnode_id":2,"marginal_co2_rate":3.0}],"totalRows":5})";
  const Feed feed = must(query(Source::Pjm, "1"), rows);
  // the clocks went back between the two: Eastern time runs backwards, UTC does not
  EXPECT_EQ(feed.step(), Span::s(300));
  EXPECT_NEAR(feed.at(utc("2024-11-03 05:55:00"))->value.value(), 453.59237, 1e-9);
  EXPECT_NEAR(feed.at(utc("2024-11-03 06:00:00"))->value.value(), -8353.0 * 0.45359237, 1e-9);
  EXPECT_EQ(feed.label().kind, IntensityKind::Marginal);
  EXPECT_NE(feed.warnings().front().find("3 of 5 rows"), std::string::npos);
  EXPECT_NE(error_of(query(Source::Pjm, ""), rows).find("choose one node"), std::string::npos);
  EXPECT_NE(
      error_of(query(Source::Pjm, "1"),
               R"({"items":[{"datetime_beginning_ept":"2024-11-03T01:00:00","pnode_id":1,"marginal_co2_rate":1}]})")
          .find("Eastern time only"),
      std::string::npos);
}

TEST(UkCarbonIntensity, ActualOverForecast) {
  const Feed feed = must(query(Source::UkCarbonIntensity, "GB"), R"({"data":[
    {"from":"2018-01-20T12:00Z","to":"2018-01-20T12:30Z","intensity":{"forecast":266,"actual":263,"index":"moderate"}},
    {"from":"2018-01-20T12:30Z","to":"2018-01-20T13:00Z","intensity":{"forecast":270,"actual":null,"index":"moderate"}}
    ]})");
  EXPECT_EQ(feed.step(), Span::s(1800));
  EXPECT_EQ(feed.at(utc("2018-01-20 12:00"))->value.value(), 263.0);
  EXPECT_FALSE(feed.at(utc("2018-01-20 12:00"))->forecast);
  EXPECT_EQ(feed.at(utc("2018-01-20 12:59:59"))->value.value(), 270.0);
  EXPECT_TRUE(feed.at(utc("2018-01-20 12:59:59"))->forecast);
}

TEST(UkCarbonIntensity, Regions) {
  const Query thirteen = query(Source::UkCarbonIntensity, "13");
  const char* row = R"([{"from":"2018-01-20T12:00Z","to":"2018-01-20T12:30Z","intensity":{"forecast":9,"index":"low"},
    "generationmix":[{"fuel":"wind","perc":80}]}])";
  for (const std::string& text :
       {std::string(R"({"data":{"regionid":13,"shortname":"London","data":)") + row + "}}",
        std::string(R"({"data":[{"regionid":13,"shortname":"London","data":)") + row + "}]}"}) {
    EXPECT_EQ(must(thirteen, text).at(utc("2018-01-20 12:10"))->value.value(), 9.0);
  }
  EXPECT_NE(error_of(thirteen, R"({"data":[{"from":"2018-01-20T12:00Z","to":"2018-01-20T12:30Z","regions":[]}]})")
                .find("ask for one"),
            std::string::npos);
  EXPECT_NE(error_of(thirteen, R"({"error":{"code":"400 Bad Request","message":"Please enter a valid regionid"}})")
                .find("valid regionid"),
            std::string::npos);
}

TEST(CarbonAware, EmissionsForecastsAndAverages) {
  const Query west = query(Source::CarbonAware, "westus", IntensityKind::Marginal);
  const Feed emissions = must(west, R"([
    {"location":"westus","time":"2022-08-01T00:00:00+00:00","rating":533.4,"duration":"00:05:00"},
    {"location":"eastus","time":"2022-08-01T00:00:00+00:00","rating":1,"duration":"00:05:00"},
    {"location":"westus","time":"2022-08-01T00:05:00+00:00","rating":534,"duration":"00:05:00"}])");
  EXPECT_EQ(emissions.label().kind, IntensityKind::Marginal);
  EXPECT_EQ(emissions.step(), Span::s(300));
  EXPECT_EQ(emissions.at(utc("2022-08-01 00:00"))->value.value(), 533.4);
  EXPECT_EQ(emissions.readings().size(), 2U);
  const Feed forecast = must(west, R"([{"requestedAt":"2022-08-01T00:00:00Z","generatedAt":"2022-07-31T23:50:00Z",
    "location":"westus","windowSize":5,"optimalDataPoints":[],"forecastData":[
    {"location":"westus","timestamp":"2022-08-01T00:00:00Z","duration":5,"value":300.0},
    {"location":"westus","timestamp":"2022-08-01T00:05:00Z","duration":5,"value":301.0}]}])");
  EXPECT_EQ(forecast.issued(), utc("2022-07-31 23:50:00"));
  EXPECT_EQ(forecast.step(), Span::s(300));
  EXPECT_TRUE(forecast.at(utc("2022-08-01 00:00"))->forecast);
  const Feed average = must(west, R"({"location":"westus","startTime":"2022-08-01T00:00:00Z",
    "endTime":"2022-08-01T06:00:00Z","carbonIntensity":345.4})");
  EXPECT_EQ(average.step(), Span::s(6 * 3600));
  EXPECT_FALSE(parse_answer(west, R"({"location":"eastus","startTime":"2022-08-01T00:00:00Z",
    "endTime":"2022-08-01T06:00:00Z","carbonIntensity":345.4})",
                            "answer")
                   .has_value());
  EXPECT_EQ(error_of(west, R"([{"location":"westus","time":"2022-08-01T00:00:00Z","rating":{}}])"),
            "answer[0].rating: must be a number or null");
}

TEST(ElectricityMaps, NoLifecycleIsNearZero) {
  for (const char* value : {"0.302", "0", "1.9"}) {  // kg/kWh; what stands for "no data"
    EXPECT_NE(
        error_of(query(Source::ElectricityMaps, "DE"),
                 std::string(R"({"zone":"DE","datetime":"2024-01-01T00:00:00Z","emissionFactorType":"lifecycle",)") +
                     R"("carbonIntensity":)" + value + "}")
            .find("kg/kWh"),
        std::string::npos)
        << value;
  }
  Query direct = query(Source::ElectricityMaps, "DE");
  direct.scope = EmissionScope::Direct;
  EXPECT_EQ(must(direct, R"({"zone":"DE","carbonIntensity":0,"datetime":"2024-01-01T00:00:00Z",
    "emissionFactorType":"direct"})")
                .at(utc("2024-01-01 00:10:00"))
                ->value.value(),
            0.0);
}

TEST(Answers, HaveBounds) {
  std::string rows = "[0";
  for (int i = 0; i < 100'000; ++i) rows += ",0";
  EXPECT_NE(error_of(query(Source::CarbonAware, "x"), rows + "]").find("100001 rows"), std::string::npos);
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_NE(error_of(query(Source::CarbonAware, "x"), deep).find("nested deeper"), std::string::npos);
}

TEST(Requests, KeysTravelInHeadersOnly) {
  Query q = query(Source::ElectricityMaps, "US CAL&CISO");
  q.wish = Wish::History;
  q.from = utc("2024-01-01 00:00:00");
  q.to = utc("2024-01-02 00:00:00");
  const auto em = request_for(q, "s3cret");
  ASSERT_TRUE(em.has_value()) << em.error().message();
  EXPECT_EQ(
      em->url,
      "https://api.electricitymaps.com/v3/carbon-intensity/past-range?zone=US%20CAL%26CISO&emissionFactorType="
      "lifecycle&shouldUseFallbackCallerLookup=false&start=2024-01-01T00%3A00%3A00Z&end=2024-01-02T00%3A00%3A00Z");
  EXPECT_EQ(em->headers.front(), "auth-token: s3cret");
  for (const auto source :
       {Source::ElectricityMaps, Source::WattTime, Source::Pjm, Source::UkCarbonIntensity, Source::CarbonAware}) {
    q.source = source;
    q.kind = source == Source::Pjm || source == Source::WattTime ? IntensityKind::Marginal : IntensityKind::Average;
    q.base_url = "http://127.0.0.1:1/";
    const auto request = request_for(q, "s3cret");
    ASSERT_TRUE(request.has_value()) << request.error().message();
    EXPECT_TRUE(request->url.starts_with("http://127.0.0.1:1/")) << request->url;
    EXPECT_EQ(request->url.find("s3cret"), std::string::npos);
    EXPECT_EQ(request->url.find(' '), std::string::npos);
  }
}

TEST(Requests, WhatCannotBeAsked) {
  Query q = query(Source::WattTime, "CAISO_NORTH", IntensityKind::Marginal);
  EXPECT_NE(request_for(q, "").error().what.find("WATTTIME_CREDENTIALS"), std::string::npos);
  EXPECT_FALSE(request_for(q, "a\r\nX-Evil: 1").has_value());
  q.wish = Wish::History;
  EXPECT_EQ(request_for(q, "t").error().where, "from, to");
  q.from = q.to = utc("2024-01-01 00:00:00");
  EXPECT_EQ(request_for(q, "t").error().where, "to");
  EXPECT_FALSE(
      request_for(query(Source::Pjm, "1", IntensityKind::Marginal), "k").has_value());  // nothing but a history
  EXPECT_FALSE(request_for(query(Source::ElectricityMaps, "DE", IntensityKind::Marginal), "k").has_value());
  EXPECT_FALSE(request_for(query(Source::UkCarbonIntensity, ""), "").has_value());
  EXPECT_EQ(request_for(query(Source::CarbonAware, "westus"), "").error().where, "base_url");
  EXPECT_FALSE(watttime_login("just-a-token", "").has_value());
  EXPECT_EQ(watttime_login("me:pass", "")->basic, "me:pass");
}

TEST(Requests, StatusesSayWhatToDo) {
  const Query q = query(Source::ElectricityMaps, "DE");
  EXPECT_EQ(refused(q, 401, Span(), "").kind, ErrorKind::External);
  EXPECT_NE(refused(q, 401, Span(), "").what.find("ELECTRICITY_MAPS_TOKEN"), std::string::npos);
  EXPECT_NE(refused(q, 429, Span::s(30), "").what.find("after 30 s"), std::string::npos);
  EXPECT_NE(refused(q, 503, Span(), "").what.find("fault of the source"), std::string::npos);
  EXPECT_NE(refused(q, 404, Span(), "").what.find("zone"), std::string::npos);
  EXPECT_NE(refused(q, 418, Span(), "tea\n").what.find("tea "), std::string::npos);
}

}  // namespace wattle::feeds
