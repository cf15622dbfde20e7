// Pages of runs that differ, of many runs, and of short ones.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "report/chart.h"
#include "report/comparison.h"
#include "report/page.h"
#include "report/page_check.h"
#include "report/synthetic_run.h"
#include "report/text.h"

namespace wattle::report {
namespace {

class SeveralRuns : public testing::Test {
 protected:
  SeveralRuns()
      : directory_(std::filesystem::path(testing::TempDir()) /
                   fmt::format("wattle_several_{}_{}", ::getpid(),
                               testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~SeveralRuns() override { std::filesystem::remove_all(directory_); }
  Comparison loaded(int runs, Span length = Span::s(25)) {
    SyntheticRun run;
    run.length = length;
    for (int i = 0; i < runs; ++i) {
      run.recipe = i == 0 ? "static-max" : fmt::format("recipe-{:02}", i);
      EXPECT_TRUE(write_synthetic_run((directory_ / fmt::format("{:02}", i)).string(), run));
    }
    auto made = load({directory_.string()}, "");
    EXPECT_TRUE(made) << made.error().message();
    return std::move(*made);
  }

  std::filesystem::path directory_;
};

/// Points of each polyline after `from`, up to the picture's end.
std::vector<std::size_t> polylines(const std::string& page, const std::string& from) {
  const std::size_t begin = page.find(from);
  const std::string picture = page.substr(begin, page.find("</svg>", begin) - begin);
  std::vector<std::size_t> all;
  for (std::size_t at = picture.find("points=\""); at != std::string::npos; at = picture.find("points=\"", at + 1)) {
    all.push_back(count(picture.substr(at, picture.find("\"/>", at) - at), ","));
  }
  return all;
}

TEST_F(SeveralRuns, AShortRunIsALineOverTime) {
  const Comparison c = loaded(1);
  const std::string page = time_plots(c);
  for (const char* picture : {"Power of the fleet over time", "Batch of the fleet over time"}) {
    const auto lines = polylines(page, picture);
    ASSERT_EQ(lines.size(), 1U) << "one sample a second: no interval is without";
    EXPECT_GE(lines[0], 10U);
  }
  EXPECT_NE(page.find("samples of at least " + duration_ms(1600)), std::string::npos);
}

TEST_F(SeveralRuns, OneSampleIsDrawnAsLongAsItsInterval) {
  const Comparison c = loaded(1, Span::s(1));
  ASSERT_EQ(c.runs[0].timeline->intervals(), 1U);
  const std::regex line("points=\"([0-9.]+),([0-9.]+) ([0-9.]+),([0-9.]+)\"");
  const std::string page = time_plots(c);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(page, found, line));
  EXPECT_GT(std::stod(found[3]) - std::stod(found[1]), 100.0);
}

TEST_F(SeveralRuns, ADistributionOfOneValueIsAStep) {
  Comparison c = loaded(1);
  c.runs[0].file.curves = {};
  c.runs[0].file.curves.e2e = {{1500.0, 1.0}};
  c.runs[0].file.facts.slo = {};
  const std::string page = latency_plots(c);
  const std::regex line("points=\"([0-9.]+),([0-9.]+) ([0-9.]+),([0-9.]+)\"");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(page, found, line));
  EXPECT_EQ(found[1], found[3]);
  EXPECT_GT(std::stod(found[2]) - std::stod(found[4]), 100.0) << "from nothing to all";
}

TEST_F(SeveralRuns, NoRunKeepsFewerObjectivesThanNone) {
  Comparison c = loaded(2);
  c.runs[1].file.summary.slo.all = 0.005;
  const std::string page = energy_plots(c);
  const std::string picture = page.substr(page.find("Attainment against energy"));
  EXPECT_NE(picture.find(">100<"), std::string::npos);
  EXPECT_EQ(picture.find(">\u2212"), std::string::npos) << "a tick below 0 %";
  EXPECT_EQ(picture.find(">-"), std::string::npos);
}

TEST_F(SeveralRuns, TheHeadingSaysWhatIsCommonAndWhatDiffers) {
  Comparison c = loaded(3);
  const std::string alike = html(c);
  EXPECT_EQ(malformed(alike), "");
  EXPECT_EQ(count(alike, "Runs differ in"), 0U);
  EXPECT_EQ(count(alike, "SLO: TTFT"), 1U);

  auto& other = c.runs[2].file;
  other.facts.scenario = "another";
  other.facts.slo.itl = Span::ms(123);
  other.summary.requests.arrived = 31'415;
  other.summary.sim.virtual_s = 7200.0;
  const std::string page = html(c);
  EXPECT_EQ(malformed(page), "");
  const std::string heading = page.substr(page.find("<header>"), page.find("</header>") - page.find("<header>"));
  for (const std::string& wanted :
       {std::string("<h1>another, azure-conv-2p2d</h1>"), std::string("Runs differ in"),
        std::string("<th>static-max, recipe-01</th><td>azure-conv-2p2d</td>"), "ITL ≤ " + duration_ms(123),
        "ITL ≤ " + duration_ms(60), whole(31'415), duration_ms(25e3) + " to " + duration_ms(7.2e6) + " of traffic"}) {
    EXPECT_NE(heading.find(wanted), std::string::npos) << wanted << "\n" << heading;
  }
  EXPECT_EQ(count(heading, "4 × a100-80g"), 1U) << "the fleet is all runs'";
  EXPECT_EQ(count(heading, "<th>Fleet</th>"), 0U);
}

TEST_F(SeveralRuns, ClassesOfOtherBordersStandInOtherTables) {
  Comparison c = loaded(3);
  for (std::size_t i = 0; i < 3; ++i) {
    auto& file = c.runs[i].file;
    file.facts.service.classes = i == 1 ? Classifier({77}, {}) : Classifier({256, 1024}, {100});
    for (const char* name : {"S", "L"}) {
      journal::UsageRow used;
      used.name = name;
      file.summary.by_class.push_back(used);
      journal::ServiceRow served;
      served.name = name;
      file.summary.service_by_class.push_back(served);
    }
  }
  for (const std::string& tables : {usage_tables(c), group_tables(c)}) {
    const auto other = tables.find("prompts below 77 tokens");
    ASSERT_NE(other, std::string::npos);
    const auto first = tables.find("prompts below 256, 1024 tokens, answers below 100 tokens");
    ASSERT_LT(first, other);
    EXPECT_EQ(count(tables.substr(first, other - first), "</i>static-max</th>"), 2U);
    EXPECT_EQ(count(tables.substr(first, other - first), "</i>recipe-01</th>"), 0U);
    EXPECT_EQ(count(tables.substr(first, other - first), "</i>recipe-02</th>"), 2U);
  }
  EXPECT_EQ(count(usage_tables(c), "By class of requests"), 1U);
}

TEST_F(SeveralRuns, AnObjectiveThatARunDoesNotStateIsADash) {
  Comparison c = loaded(2);
  EXPECT_EQ(count(service_table(c), "<td class=\"dim\">–</td>"), 4U) << "fairness, of which nothing is known";
  c.runs[0].file.facts.slo.itl.reset();
  EXPECT_EQ(count(service_table(c), "<td class=\"dim\">–</td>"), 5U);
  c.runs[1].file.facts.slo.itl.reset();
  EXPECT_EQ(count(service_table(c), "<th>ITL</th>"), 0U);
  Tier fast;
  fast.slo.itl = Span::ms(60);
  c.runs[1].file.facts.service.objectives = Objectives(Slo{}, {}, {}, {fast});
  EXPECT_EQ(count(service_table(c), "<th>ITL</th>"), 1U) << "a tier states it";
}

TEST_F(SeveralRuns, PicturesAndTablesSayTheSameMeanPower) {
  Comparison c = loaded(2);
  c.runs[1].file.summary.mean_power = Watts(1234.4);
  EXPECT_NE(energy_table(c).find("<td>1234</td>"), std::string::npos);
  EXPECT_NE(time_plots(c).find("recipe-01, mean 1234 W"), std::string::npos);
}

TEST_F(SeveralRuns, ATimeSeriesCutOffIsNotTakenForWhole) {
  EXPECT_EQ(html(loaded(1)).find("timeseries.csv has no sample after"), std::string::npos);
  const std::string path = (directory_ / "00" / "timeseries.csv").string();
  const std::string whole_text = *read_file(path);
  ASSERT_TRUE(write_file(path, whole_text.substr(0, whole_text.find("\n11.000000000,") + 1)));
  const auto refused = load({directory_.string()}, "");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message().starts_with(path + ":46: the file is cut off here"))
      << refused.error().message();
  // A run of before sizes were recorded has only its samples to go by.
  const std::string run = (directory_ / "00" / "run.json").string();
  auto older = nlohmann::ordered_json::parse(*read_file(run));
  EXPECT_EQ(older.erase("bytes"), 1U);
  ASSERT_TRUE(write_file(run, older.dump()));
  const auto cut = load({directory_.string()}, "");
  ASSERT_TRUE(cut) << cut.error().message();
  EXPECT_NE(html(*cut).find("static-max: timeseries.csv has no sample after " + duration_ms(10e3) + " of " +
                            duration_ms(25e3)),
            std::string::npos);
}

TEST_F(SeveralRuns, FortyFourRunsLookUnlike) {
  const Comparison c = loaded(44, Span::s(4));
  std::set<std::size_t> looks;
  for (std::size_t i = 0; i <= kAppearances; ++i) looks.insert(c.colour(i));
  EXPECT_EQ(looks.size(), kAppearances + 1);
  for (const std::size_t look : looks) EXPECT_EQ(count(style(), fmt::format(".r{}{{", look)), 1U) << look;
  const std::string page = html(c);
  EXPECT_EQ(malformed(page), "");
  EXPECT_NE(page.find("43 runs beside the baseline: colours and dashes tell 28 apart"), std::string::npos);
  EXPECT_NE(page.find("more: point at a line"), std::string::npos) << "a picture has no room for 44 labels";
  EXPECT_NE(page.find("No room for these names"), std::string::npos);
}

TEST(DotChart, NamesNeitherMeetNorLeaveThePlot) {
  DotChart chart;
  chart.x = linear_axis(0.0, 80.0, 5, "kJ");
  chart.y = linear_axis(98.0, 100.0, 4, "%");
  chart.x_title = "energy, kJ";
  chart.y_title = "% of arrived requests that met every SLO";
  for (std::size_t i = 0; i < 44; ++i) {
    chart.dots.push_back(
        {i, 0, fmt::format("a-recipe-{}", i), static_cast<double>(i * i % 67), i % 9 == 0 ? 99.1 : 100.0});
  }
  const std::string picture = svg(chart);
  const auto left_out = unnamed(chart);
  EXPECT_GT(left_out.size(), 20U);
  EXPECT_TRUE(std::ranges::is_sorted(left_out, {}, &Dot::x));
  EXPECT_EQ(count(picture, "<title>a-recipe-"), 44U);
  EXPECT_NE(picture.find("<title>a-recipe-3: 9.000 kJ, 100.0 %</title>"), std::string::npos) << picture;
  struct Named {
    double left, right, y;
  };
  std::vector<Named> names;
  const std::regex name("class=\"end\" x=\"([0-9.-]+)\" y=\"([0-9.-]+)\" text-anchor=\"([a-z]+)\">([^<]+)<");
  for (std::sregex_iterator at(picture.begin(), picture.end(), name), end; at != end; ++at) {
    const double x = std::stod((*at)[1]), width = 6.6 * static_cast<double>((*at)[4].length());
    const bool leftwards = (*at)[3] == "end";
    names.push_back({leftwards ? x - width : x, leftwards ? x : x + width, std::stod((*at)[2])});
  }
  EXPECT_EQ(names.size() + left_out.size(), 44U);
  EXPECT_GE(names.size(), 4U);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_LT(names[i].y, 210.0) << "above the axis";
    EXPECT_LT(names[i].right, 480.0);
    for (std::size_t k = 0; k < i; ++k) {
      const bool beside = names[i].left >= names[k].right || names[k].left >= names[i].right;
      EXPECT_TRUE(beside || std::abs(names[i].y - names[k].y) >= 12.0) << i << " and " << k;
    }
  }
}

TEST(DotChart, TwoNeighboursAreBothNamed) {
  DotChart chart;
  chart.x = linear_axis(0.0, 80.0, 5, "kJ");
  chart.y = linear_axis(98.0, 100.0, 4, "%");
  chart.dots = {{0, 0, "static-max", 40.0, 100.0}, {1, 1, "eco-freq", 41.0, 100.0}, {2, 2, "wattle", 40.5, 99.9}};
  EXPECT_TRUE(unnamed(chart).empty());
}

TEST(Timeline, IntervalsAreNoShorterThanTheTimeBetweenSamples) {
  Timeline timeline(320);
  for (int i = 0; i < 25; ++i) {
    journal::Sample s;
    s.at = Instant() + Span::s(i) + (i == 12 ? Span::ms(900) : Span());  // one is late
    s.power = Milliwatts(1000LL * (i + 1));
    timeline.add(s);
  }
  timeline.settle();
  EXPECT_GE(timeline.interval_s(), 1.0);
  EXPECT_LT(timeline.interval_s(), 2.0);
  for (const double v : timeline.fleet(Signal::Power)) EXPECT_FALSE(std::isnan(v));
}

TEST(Timeline, WhoWasGoneIsGone) {
  Timeline timeline(320);
  for (int i = 0; i < 60; ++i) {
    journal::Sample s;
    s.at = Instant() + Span::ms(100 * i + (i < 30 ? 0 : 5000));
    timeline.add(s);
  }
  timeline.settle();
  EXPECT_DOUBLE_EQ(timeline.interval_s(), 0.1) << "of ten samples a second nothing is merged";
  EXPECT_TRUE(std::isnan(timeline.fleet(Signal::Power)[50]));
}

}  // namespace
}  // namespace wattle::report
