#include "feeds/feed.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <limits>

#include "base/file.h"
#include "base/timestamp.h"
#include "feeds/generation_mix.h"

namespace wattle::feeds {

namespace {
Instant hour(std::int64_t n) { return Instant() + Span::s(1'700'000'000 / 3600 * 3600) + Span::s(3600 * n); }

FeedLabel label(IntensityKind kind = IntensityKind::Average) { return {"test", "XX", kind, EmissionScope::Direct}; }

Feed must(Result<Feed> feed) {
  EXPECT_TRUE(feed.has_value()) << feed.error().message();
  return std::move(*feed);
}

std::string warnings_of(const Feed& feed) {
  std::string all;
  for (const auto& one : feed.warnings()) all += one + "\n";
  return all;
}

Feed built(const std::vector<std::pair<int, double>>& rows) {
  FeedBuilder builder(label());
  for (const auto& [h, v] : rows) builder.add({.from = hour(h), .value = GramsPerKwh(v)});
  return must(std::move(builder).build("feed"));
}
}  // namespace

TEST(Feed, AGapHasNoValueAndAReason) {
  const Feed feed = built({{0, 100.0}, {1, 110.0}, {2, 120.0}, {5, 150.0}});
  EXPECT_EQ(feed.step(), Span::s(3600));
  EXPECT_EQ(feed.at(hour(2))->value.value(), 120.0);
  EXPECT_EQ(feed.at(hour(3) - Span::ns(1))->value.value(), 120.0);
  const auto gap = feed.at(hour(3));
  ASSERT_FALSE(gap.has_value());
  EXPECT_NE(gap.error().reason.find("gap"), std::string::npos) << gap.error().reason;
  EXPECT_FALSE(feed.at(hour(0) - Span::ns(1)).has_value());
  const auto after = feed.at(hour(7));
  ASSERT_FALSE(after.has_value());
  EXPECT_NE(after.error().reason.find("ended 60 min ago"), std::string::npos) << after.error().reason;
  EXPECT_NE(warnings_of(feed).find("1 gaps"), std::string::npos) << warnings_of(feed);
}

TEST(Feed, AnOldValueIsUsedWithItsAgeOnlyAsLongAsAllowed) {
  const Feed feed = built({{0, 100.0}, {1, 110.0}, {4, 140.0}});
  const auto held = feed.at(hour(3), Span::s(3600));
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(held->value.value(), 110.0);
  EXPECT_EQ(held->age, Span::s(3600));
  EXPECT_FALSE(feed.at(hour(3) + Span::ns(1), Span::s(3600)).has_value());
  EXPECT_EQ(feed.at(hour(4), Span::s(3600))->age, Span());
  EXPECT_EQ(feed.at(hour(6), Span::s(7200))->value.value(), 140.0);
}

TEST(Feed, ARowWithoutValueEndsTheOneBefore) {
  FeedBuilder builder(label());
  builder.add({.from = hour(0), .value = GramsPerKwh(100.0)});
  builder.add({.from = hour(1), .value = std::nullopt});
  builder.add({.from = hour(2), .value = GramsPerKwh(120.0), .estimated = true});
  const Feed feed = must(std::move(builder).build("feed"));
  EXPECT_FALSE(feed.at(hour(1)).has_value());
  EXPECT_TRUE(feed.at(hour(2))->estimated);
  EXPECT_NE(warnings_of(feed).find("1 of 3 rows without a value"), std::string::npos);
  EXPECT_NE(warnings_of(feed).find("1 of 3 rows estimated"), std::string::npos);
  const auto series = feed.series(hour(0));
  EXPECT_TRUE(series.covers(Instant()));
  EXPECT_FALSE(series.covers(Instant() + Span::s(3600)));
  EXPECT_EQ(series.at(Instant() + Span::s(3600)).value(), 100.0) << "held, and not covered";
  EXPECT_TRUE(series.covers(Instant() + Span::s(7200)));
  EXPECT_FALSE(series.covers(Instant() + Span::s(10'800)));
  EXPECT_TRUE(feed.series(hour(0), Span::s(3600)).covers(Instant() + Span::s(3600)));
  EXPECT_FALSE(feed.check_holds(hour(3), "feed").has_value());
  EXPECT_TRUE(feed.check_holds(hour(1), "feed").has_value());
}

TEST(Feed, ANewerAnswerHoldsInsteadOfAnOlderOne) {
  Feed feed = built({{0, 100.0}, {1, 110.0}});
  feed.update(built({{1, 111.0}, {2, 120.0}}));
  EXPECT_EQ(feed.readings().size(), 3U);
  EXPECT_EQ(feed.at(hour(0))->value.value(), 100.0);
  EXPECT_EQ(feed.at(hour(1))->value.value(), 111.0);
  EXPECT_EQ(feed.at(hour(2))->value.value(), 120.0);
}

TEST(Feed, OddOrderIsRepairedAndContradictionIsUnknown) {
  const Feed feed = built({{2, 120.0}, {0, 100.0}, {1, 110.0}, {1, 110.0}, {3, 130.0}, {3, 131.0}});
  EXPECT_EQ(feed.readings().size(), 4U);
  EXPECT_EQ(feed.at(hour(1))->value.value(), 110.0);
  EXPECT_FALSE(feed.at(hour(3)).has_value());
  const std::string said = warnings_of(feed);
  EXPECT_NE(said.find("sorted"), std::string::npos) << said;
  EXPECT_NE(said.find("1 rows repeat another"), std::string::npos) << said;
  EXPECT_NE(said.find("1 rows contradict"), std::string::npos) << said;
}

TEST(Feed, NotANumberIsUnknownAndAnotherUnitIsRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Feed feed = built({{0, 100.0}, {1, nan}, {2, 120.0}});
  EXPECT_FALSE(feed.at(hour(1)).has_value());
  FeedBuilder pounds(label());  // a coal grid, in lbs/MWh
  pounds.add({.from = hour(0), .value = GramsPerKwh(2050.0)});
  pounds.add({.from = hour(1), .value = GramsPerKwh(2040.0)});
  const auto refused = std::move(pounds).build("feed");
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().what.find("lbs/MWh"), std::string::npos) << refused.error().what;
  FeedBuilder negative(label());
  negative.add({.from = hour(0), .value = GramsPerKwh(-1.0)});
  EXPECT_FALSE(std::move(negative).build("feed").has_value());
  FeedBuilder marginal(label(IntensityKind::Marginal));  // below 0 where a line is congested
  marginal.add({.from = hour(0), .value = GramsPerKwh(-3789.0)});
  marginal.declare_step(Span::s(300));
  EXPECT_EQ(must(std::move(marginal).build("feed")).at(hour(0))->value.value(), -3789.0);
}

TEST(Feed, NothingToSayIsAnError) {
  EXPECT_FALSE(FeedBuilder(label()).build("feed").has_value());
  FeedBuilder single(label());
  single.add({.from = hour(0), .value = GramsPerKwh(1.0)});
  EXPECT_FALSE(std::move(single).build("feed").has_value());
  FeedBuilder silent(label());
  silent.add({.from = hour(0), .value = std::nullopt});
  silent.add({.from = hour(1), .value = std::nullopt});
  EXPECT_FALSE(std::move(silent).build("feed").has_value());
}

TEST(Feed, AFlagThatDisagreesIsNamed) {
  const FeedLabel direct = label();
  EXPECT_TRUE(check_label(direct, {}).has_value());
  EXPECT_TRUE(check_label(direct, {.kind = IntensityKind::Average, .scope = EmissionScope::Direct}).has_value());
  EXPECT_EQ(check_label(direct, {.kind = IntensityKind::Marginal}).error().where, "--kind");
  EXPECT_EQ(check_label(direct, {.scope = EmissionScope::Lifecycle}).error().where, "--scope");
  FeedLabel unstated = direct;
  unstated.scope = EmissionScope::Unstated;
  EXPECT_TRUE(check_label(unstated, {.scope = EmissionScope::Lifecycle}).has_value());
}

TEST(Feed, KilogramsAreNoGrams) {
  const auto read = [](const char* values) {
    std::string text = "datetime_utc,ci_direct_gco2_kwh\n";
    int hour = 0;
    for (const char value : std::string_view(values)) {
      const std::string number = value == '-' ? "" : value == 'k' ? "0.061" : value == 'z' ? "0" : "2.5";
      text += "2024-01-01 0" + std::to_string(hour++) + ":00:00," + number + "\n";
    }
    return parse_feed_csv(electricity_maps_direct(), label(), text, "ci.csv");
  };
  const auto kilograms = read("k-kk");
  ASSERT_FALSE(kilograms.has_value());
  EXPECT_NE(kilograms.error().what.find("kg/kWh"), std::string::npos) << kilograms.error().what;
  EXPECT_TRUE(read("kkgk").has_value()) << "a grid is clean for hours";
  EXPECT_TRUE(read("kkzk").has_value()) << "and nothing but clean power is no error of unit";
}

TEST(Feed, CsvWithGapsBlanksAndZones) {
  // the night clocks go forward in Berlin: local hours with their offsets are even in UTC
  const Feed feed = must(parse_feed_csv(electricity_maps_direct(), label(),
                                        "datetime_utc,ci_direct_gco2_kwh,estimated\n"
                                        "2024-03-31T01:00:00+01:00,300,0\n"
                                        "2024-03-31T03:00:00+02:00,310,1\n"
                                        "2024-03-31T04:00:00+02:00,,0\n"
                                        "2024-03-31T05:00:00+02:00,nan,0\n"
                                        "2024-03-31T09:00:00+02:00,320,0\n",
                                        "ci.csv"));
  EXPECT_EQ(feed.step(), Span::s(3600));
  EXPECT_EQ(feed.at(Instant(*parse_timestamp("2024-03-31 00:30:00Z")))->value.value(), 300.0);
  EXPECT_TRUE(feed.at(Instant(*parse_timestamp("2024-03-31 01:30:00Z")))->estimated);
  EXPECT_FALSE(feed.at(Instant(*parse_timestamp("2024-03-31 02:30:00Z"))).has_value());
  EXPECT_FALSE(feed.at(Instant(*parse_timestamp("2024-03-31 05:30:00Z"))).has_value());
  // when clocks go back, the repeated hour counts as two hours
  const Feed back = must(parse_feed_csv(electricity_maps_direct(), label(),
                                        "datetime_utc,ci_direct_gco2_kwh,estimated\n"
                                        "2024-10-27T01:00:00+02:00,300,0\n"
                                        "2024-10-27T02:00:00+02:00,310,0\n"
                                        "2024-10-27T02:00:00+01:00,320,0\n"
                                        "2024-10-27T03:00:00+01:00,330,0\n",
                                        "ci.csv"));
  EXPECT_EQ(back.readings().size(), 4U);
  EXPECT_EQ(back.at(Instant(*parse_timestamp("2024-10-27 00:30:00Z")))->value.value(), 310.0);
  EXPECT_EQ(back.at(Instant(*parse_timestamp("2024-10-27 01:30:00Z")))->value.value(), 320.0);
  const auto bad = parse_feed_csv(electricity_maps_direct(), label(),
                                  "datetime_utc,ci_direct_gco2_kwh\n2024-03-31 01:00:00,many\n", "ci.csv");
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().where, "ci.csv:2");
}

RC_GTEST_PROP(Feed, AtFindsWhatASearchFinds, ()) {
  const auto rows = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 40), rc::gen::inRange(-1, 50))));
  FeedBuilder builder(label());
  builder.declare_step(Span::s(3600));
  bool any = false;
  for (const auto& [h, v] : rows) {
    builder.add({.from = hour(h), .value = v < 0 ? std::optional<GramsPerKwh>() : GramsPerKwh(v)});
    any = any || v >= 0;
  }
  const auto feed = std::move(builder).build("feed");
  RC_ASSERT(any || !feed.has_value());
  if (!feed) return;  // all known times may contradict each other
  for (int h = -1; h < 42; ++h) {
    const auto said = feed->at(hour(h));
    constexpr int kNone = -1;  // also the value of a row without one
    int expected = kNone;
    bool contradictory = false;
    bool first = true;
    for (const auto& [at, v] : rows) {
      if (at != h) continue;
      contradictory = contradictory || (!first && v != expected);
      if (first) expected = v;
      first = false;
    }
    if (contradictory) expected = kNone;
    for (const Span age : {Span(), Span::s(3600)}) {
      const auto series = feed->series(hour(0), age);
      const Span half = Span::s(1800);  // at() holds a value until the end of its age, where a series ends
      const Instant then = Instant() + (hour(h) - hour(0)) + half;
      const auto known = feed->at(hour(h) + half, age);
      RC_ASSERT(series.covers(then) == known.has_value());
      if (known) RC_ASSERT(series.at(then) == known->value);
    }
    RC_ASSERT(said.has_value() == (expected != kNone));
    if (said) RC_ASSERT(said->value.value() == static_cast<double>(expected));
  }
}

TEST(Feed, RealFiles) {
  const char* data = std::getenv("WATTLE_DATA");
  if (data == nullptr) GTEST_SKIP() << "WATTLE_DATA is not set";
  const std::string root(data);
  const auto text = [&](const std::string& path) {
    auto read = read_file(root + path);
    EXPECT_TRUE(read.has_value());
    return read ? *read : std::string();
  };
  // PJM's file: 23 blank hours, the first on the night clocks go forward.
  const Feed pjm =
      must(parse_feed_csv(eia_average(), {"eia", "PJM", {}, {}}, text("/carbon-eia-mix-2022/PJM.csv"), "PJM.csv"));
  EXPECT_EQ(pjm.readings().size(), 8760U);
  EXPECT_FALSE(pjm.at(Instant(*parse_timestamp("2022-03-13 07:00:00"))).has_value());
  EXPECT_TRUE(pjm.at(Instant(*parse_timestamp("2022-03-13 06:00:00"))).has_value());
  EXPECT_NE(warnings_of(pjm).find("23 of 8760 rows without a value"), std::string::npos) << warnings_of(pjm);
  // Mix and factors give the intensity the file states, which is rounded to 0.01.
  for (const char* authority : {"CISO", "PJM", "ERCO", "NYIS"}) {
    const std::string rows = text(std::string("/carbon-eia-mix-2022/") + authority + ".csv");
    const Feed mixed = must(parse_generation_mix(ipcc_lifecycle(), {"eia", authority, {}, {}}, rows, authority));
    const Feed stated = must(parse_feed_csv(eia_average(), {"eia", authority, {}, {}}, rows, authority));
    ASSERT_EQ(mixed.readings().size(), stated.readings().size());
    for (std::size_t i = 0; i < mixed.readings().size(); ++i) {
      ASSERT_EQ(mixed.readings()[i].value.has_value(), stated.readings()[i].value.has_value());
      if (!stated.readings()[i].value) continue;
      EXPECT_NEAR(mixed.readings()[i].value->value(), stated.readings()[i].value->value(), 0.0101) << authority << i;
    }
  }
  const Feed singapore = must(parse_feed_csv(electricity_maps_direct(), {"em", "SG", {}, {}},
                                             text("/carbon-electricitymaps-hourly/SG_2024.csv"), "SG"));
  const auto guessed = std::ranges::count_if(singapore.readings(), &Reading::estimated);
  EXPECT_NEAR(static_cast<double>(guessed) / 8784.0, 0.17, 0.01);
}

TEST(Feed, APartIsWhatBeginsWithin) {
  FeedBuilder builder(label());
  for (int h = 0; h < 5; ++h) builder.add({.from = hour(h), .value = GramsPerKwh(100.0 + h)});
  const Feed feed = must(std::move(builder).build("feed"));
  const Feed part = must(feed.between(hour(1), hour(3), "feed"));
  ASSERT_EQ(part.readings().size(), 2U);
  EXPECT_EQ(part.begin(), hour(1));
  EXPECT_EQ(part.end(), hour(3));
  EXPECT_EQ(must(feed.between(std::nullopt, hour(2), "feed")).readings().size(), 2U);
  const auto nothing = feed.between(hour(7), std::nullopt, "f.csv");
  ASSERT_FALSE(nothing.has_value());
  EXPECT_EQ(nothing.error().where, "f.csv");
}

TEST(Mix, WhatDrawsPowerCountsAsNoneAndIsSaid) {
  const Feed feed =
      must(parse_generation_mix(ipcc_lifecycle(), label(),
                                "datetime_utc,wind_mw,solar_mw,hydro_mw,oil_mw,gas_mw,coal_mw,nuclear_mw,other_mw\n"
                                "2022-01-01 00:00:00,0,-5,-700,0,10,10,0,0\n2022-01-01 01:00:00,1,-5,0,0,0,0,0,0\n",
                                "mix.csv"));
  EXPECT_DOUBLE_EQ(feed.readings()[0].value->value(), 655.0);
  EXPECT_DOUBLE_EQ(feed.readings()[1].value->value(), 11.0);
  EXPECT_EQ(warnings_of(feed), "3 negative megawatts: such a source draws power, counted as none\n");
}

}  // namespace wattle::feeds
