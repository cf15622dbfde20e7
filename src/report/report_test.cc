#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/random.h"
#include "report/chart.h"
#include "report/comparison.h"
#include "report/page.h"
#include "report/page_check.h"
#include "report/synthetic_run.h"
#include "report/text.h"

namespace wattle::report {
namespace {

namespace fs = std::filesystem;

class Report : public testing::Test {
 protected:
  Report()
      : root_(fs::path(testing::TempDir()) / (std::string("wattle_report_") + std::to_string(::getpid()) + "_" +
                                              testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~Report() override { fs::remove_all(root_); }
  std::string write(const char* name, const SyntheticRun& run) {
    const std::string directory = (root_ / name).string();
    const auto written = write_synthetic_run(directory, run);
    EXPECT_TRUE(written) << written.error().message();
    return directory;
  }
  void write_three(Span length = Span::s(120), int instances = 4) {
    SyntheticRun run;
    run.length = length;
    run.instances = instances;
    write("eco-freq", (run.recipe = "eco-freq", run.clock_low = MegaHertz(1095), run));
    write("static-max", (run.recipe = "static-max", run.clock_low = MegaHertz(1410), run));
    write("static-sweet", (run.recipe = "static-sweet", run.clock_low = MegaHertz(1005), run));
  }
  /// Damages a file: replaces the first `what` by `with`.
  static void damage(const std::string& path, const std::string& what, const std::string& with) {
    auto text = read_file(path);
    ASSERT_TRUE(text);
    const std::size_t at = text->find(what);
    ASSERT_NE(at, std::string::npos) << what;
    text->replace(at, what.size(), with);
    ASSERT_TRUE(write_file(path, *text));
  }
  static std::string problem(const std::vector<std::string>& paths, const std::string& baseline = "") {
    const auto loaded = load(paths, baseline);
    if (loaded) return "accepted";
    EXPECT_EQ(loaded.error().kind, ErrorKind::BadInput);
    return loaded.error().message();
  }

  fs::path root_;
};

TEST_F(Report, OnePageShowsEveryRun) {
  write_three();
  const auto c = load({root_.string()}, "");
  ASSERT_TRUE(c) << c.error().message();
  ASSERT_EQ(c->runs.size(), 3U);
  EXPECT_EQ(c->runs[c->baseline].label, "static-max");
  EXPECT_TRUE(c->same_work);
  const std::string page = html(*c);
  EXPECT_EQ(malformed(page), "");
  for (const report::Run& run : c->runs) {
    EXPECT_GE(count(page, ">" + run.label), 4U) << run.label;  // legend, two tables, provenance
    const std::string saved = change(c->versus(run).energy);
    if (&run != &c->runs[c->baseline]) {
      EXPECT_NE(page.find(saved), std::string::npos) << saved;
    }
  }
  EXPECT_NE(page.find("simulated"), std::string::npos);
  EXPECT_NE(page.find("SLO 600"), std::string::npos);
  EXPECT_NE(page.find("decode 3: 1 × a100-80g"), std::string::npos);
  // 4 distributions, fleet power (once more for a phone) + 3, and three per instance, each with one line per run at
  // least.
  EXPECT_EQ(count(page, "class=\"chart\""), 4U + 2U + 3U + 3U * 4U);
  EXPECT_EQ(count(page, "class=\"wide screen\""), count(page, "class=\"wide phone\""));
  EXPECT_GE(count(page, "<polyline"), 3U * 20U);
  // On a phone a total is above its bar, at the right: next to the longest bar it would be cut off.
  EXPECT_EQ(count(page, "class=\"bar-total screen\""), 3U);
  EXPECT_EQ(count(page, "class=\"bar-total phone\" x=\"632.0\""), 3U);
}

TEST_F(Report, ThePageNeedsNoNetwork) {
  write_three();
  const std::string page = html(*load({root_.string()}, ""));
  for (const char* reference : {"http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "XMLHttp", "//cdn"}) {
    EXPECT_EQ(count(page, reference), 0U) << reference;
  }
}

TEST_F(Report, AnHourOfEightInstancesStaysBelowTwoMegabytes) {
  write_three(Span::s(3600), 8);
  const auto c = load({root_.string()}, "");
  ASSERT_TRUE(c);
  EXPECT_LE(c->runs[0].timeline->intervals(), 320U);
  const std::string page = html(*c);
  EXPECT_LT(page.size(), 2'000'000U);
  EXPECT_EQ(malformed(page), "");
}

TEST_F(Report, ManyInstancesStayBelowTwoMegabytesToo) {
  write_three(Span::s(1200), 40);
  const std::string page = html(*load({root_.string()}, ""));
  EXPECT_LT(page.size(), 2'000'000U);
  EXPECT_NE(page.find("16 more instances"), std::string::npos);
}

TEST_F(Report, NamesAreEscapedEverywhere) {
  SyntheticRun run;
  run.length = Span::s(20);
  run.recipe = "<script>alert(\"x\")</script>&'";
  run.scenario = "a<b>\"c\" \xFF";
  run.driver = "<i>other</i>";
  const auto c = load({write("one", run)}, "");
  ASSERT_TRUE(c) << c.error().message();
  const std::string page = html(*c);
  EXPECT_EQ(malformed(page), "");
  EXPECT_EQ(count(page, "alert(\"x\")"), 0U);
  EXPECT_EQ(count(page, "<i>other"), 0U);
  EXPECT_EQ(count(page, "<script>"), 1U);  // the page's own
  EXPECT_NE(page.find("&lt;script&gt;alert(&quot;x&quot;)"), std::string::npos);
}

TEST_F(Report, OneRunWithoutATimeSeriesIsStillAReport) {
  SyntheticRun run;
  run.length = Span::s(20);
  run.timeseries = false;
  run.driver = "live";
  run.meters = "measured";
  const auto c = load({write("one", run)}, "");
  ASSERT_TRUE(c);
  const std::string page = html(*c);
  EXPECT_EQ(malformed(page), "");
  EXPECT_NE(page.find("No time series was recorded"), std::string::npos);
  EXPECT_NE(page.find("measured live"), std::string::npos);
  EXPECT_EQ(page.find("simulated"), std::string::npos);
}

TEST_F(Report, NobodyTakesVirtualGpusForMeasuredOnes) {
  SyntheticRun run;
  run.length = Span::s(20);
  run.driver = "live";
  run.meters = "emulated";
  const auto c = load({write("one", run)}, "");
  ASSERT_TRUE(c);
  const std::string page = html(*c);
  EXPECT_EQ(malformed(page), "");
  EXPECT_NE(page.find("<span class=\"badge\">emulated</span>"), std::string::npos);
  EXPECT_EQ(page.find("measured"), std::string::npos);
  EXPECT_EQ(to_json(*c)["runs"][0]["kind"], "emulated");
  run.meters = "none";
  EXPECT_EQ(load({write("two", run)}, "")->runs[0].kind(), "live, energy not metered");
}

TEST_F(Report, ARunHoldsTheSimulatedOnesItIsComparedWith) {
  SyntheticRun run;
  run.length = Span::s(20);
  run.driver = "live";
  run.meters = "emulated";
  run.recipe = "eco-freq";
  const std::string live = write("live", run);
  SyntheticRun baseline;
  baseline.length = Span::s(20);
  ASSERT_TRUE(write_synthetic_run(live + "/static-max-simulated", baseline));
  const auto c = load({live}, "");
  ASSERT_TRUE(c) << c.error().message();
  ASSERT_EQ(c->runs.size(), 2U);
  EXPECT_EQ(c->runs[0].file.facts.recipe, "eco-freq");
  EXPECT_EQ(c->baseline, 1U);
  EXPECT_NE(html(*c).find("north &amp; co"), std::string::npos) << "what each site used";
}

TEST_F(Report, NothingIsComparedWithARunThatDidLessUnlessItIsAskedFor) {
  SyntheticRun run;
  run.recipe = "a-sheds";
  run.requests_per_s = 6.0;
  const std::string sheds = write("a-sheds", run);
  run.recipe = "single-pool";
  run.requests_per_s = 8.0;
  const std::string whole = write("single-pool", run);
  const auto c = load({sheds, whole}, "");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->baseline, 1U);
  EXPECT_TRUE(c->versus(c->runs[0]).did_less);
  EXPECT_EQ(load({sheds, whole}, "a-sheds")->baseline, 0U);
}

TEST_F(Report, AnEmptyRunDividesByNothing) {
  SyntheticRun run;
  run.length = Span::s(2);
  run.requests_per_s = 1e-6;
  const auto c = load({write("one", run)}, "");
  ASSERT_TRUE(c);
  const std::string page = html(*c);
  EXPECT_EQ(malformed(page), "");
  EXPECT_EQ(count(page, "nan") + count(page, "inf,") + count(page, "inf\""), 0U);
}

TEST_F(Report, EqualRecipesAreDistinguished) {
  SyntheticRun run;
  run.length = Span::s(20);
  const std::string a = write("a", run);
  run.seed = 2;
  const std::string b = write("b", run);
  const auto c = load({a, b, a}, "static-max (seed 2)");
  EXPECT_FALSE(c) << "labels are numbered when one run is given twice";
  const auto two = load({a, b}, "static-max (seed 2)");
  ASSERT_TRUE(two);
  EXPECT_EQ(two->baseline, 1U);
  EXPECT_FALSE(two->same_work);
  EXPECT_NE(html(*two).find("not for the same work"), std::string::npos);
}

TEST_F(Report, JsonCarriesSummariesAndSavings) {
  write_three();
  auto c = load({root_.string()}, "static-sweet");
  ASSERT_TRUE(c);
  const auto json = to_json(*c);
  EXPECT_EQ(json["baseline"], "static-sweet");
  ASSERT_EQ(json["runs"].size(), 3U);
  const auto& max = json["runs"][1];
  EXPECT_EQ(max["recipe"], "static-max");
  EXPECT_GT(max["versus_baseline"]["energy"].get<double>(), 0.0);
  EXPECT_DOUBLE_EQ(max["versus_baseline"]["energy"].get<double>(),
                   max["energy_j"]["total"].get<double>() / json["runs"][2]["energy_j"]["total"].get<double>() - 1.0);
  EXPECT_EQ(html(*c).find("no saving is stated"), std::string::npos);
  EXPECT_EQ(html(*c).find("until the later end"), std::string::npos) << "they end together";
  auto& summary = c->runs[1].file.summary;
  summary.sim.virtual_s += 1.0;
  EXPECT_NE(html(*c).find("until the later end"), std::string::npos) << "what else makes of two energies the change";
  const Joules used = std::exchange(c->runs[2].file.summary.energy.total, Joules());
  EXPECT_NE(html(*c).find("energy not comparable with static-sweet, at"), std::string::npos);
  c->runs[2].file.summary.energy.total = used;
  summary.requests.finished /= 2;
  summary.energy.unknown_carbon = Joules(summary.energy.total.value() / 4);
  summary.energy.unknown_price = Joules(summary.energy.total.value() / 2);
  EXPECT_TRUE(to_json(*c)["runs"][1]["versus_baseline"]["energy"].is_null());
  EXPECT_NE(html(*c).find("did less than static-sweet, so no saving is stated"), std::string::npos);
  EXPECT_NE(html(*c).find("for 25.0\u202f% of its energy the"), std::string::npos);
  EXPECT_NE(html(*c).find("for 50.0\u202f% of its energy the price"), std::string::npos);
}

TEST_F(Report, BadInputNamesFileLineAndRemedy) {
  write_three(Span::s(10));
  const std::string run = (root_ / "eco-freq").string();
  const std::string series = run + "/timeseries.csv";
  const std::string nowhere = (root_ / "nowhere").string();
  EXPECT_EQ(problem({nowhere}), nowhere + ": no such directory; give one written by `wattle sim --out`");
  fs::create_directories(nowhere);
  EXPECT_EQ(problem({nowhere}),
            nowhere + ": neither it nor a directory in it holds a run.json; give one written by `wattle sim --out`");
  EXPECT_EQ(problem({run}, "no-such-recipe"), "--baseline: no run is called 'no-such-recipe'; there are: eco-freq");

  const std::string good = *read_file(series);
  damage(series, "power_w", "watts");
  EXPECT_TRUE(problem({run}).starts_with(series + ":1: ")) << problem({run});
  EXPECT_NE(problem({run}).find("power_w"), std::string::npos);
  ASSERT_TRUE(write_file(series, good));
  damage(series, "\n1.000000000,1,", "\n1.000000000,one,");
  EXPECT_TRUE(problem({run}).starts_with(series + ":7: instance_id is 'one'")) << problem({run});
  ASSERT_TRUE(write_file(series, good.substr(0, good.size() - 9)));
  EXPECT_TRUE(problem({run}).starts_with(series + ":41: ")) << problem({run});
  fs::remove(series);
  EXPECT_TRUE(problem({run}).starts_with(series)) << problem({run});
  ASSERT_TRUE(write_file(series, good));

  const std::string json = *read_file(run + "/run.json");
  ASSERT_TRUE(write_file(run + "/run.json", json.substr(0, json.size() / 2)));
  EXPECT_NE(problem({run}).find("run.json:"), std::string::npos) << problem({run});
  EXPECT_NE(problem({run}).find("cut off"), std::string::npos) << problem({run});
  ASSERT_TRUE(write_file(run + "/run.json", json));
  EXPECT_EQ(problem({run}), "accepted");

  for (const char* name : {"requests.csv", "trace.json", "decisions.jsonl"}) {
    const std::string path = run + "/" + name;
    const std::string all = *read_file(path);
    const std::size_t end = all.rfind('\n', all.size() - 2) + 1;  // between two rows, where no reader sees it
    ASSERT_TRUE(write_file(path, all.substr(0, end)));
    const auto rows = std::ranges::count(all.substr(0, end), '\n');
    EXPECT_EQ(
        problem({run}),
        fmt::format("{}:{}: the file is cut off here: it holds {} of the {} bytes that the run wrote; copy it again, "
                    "or write the run again",
                    path, rows + 1, end, all.size()));
    ASSERT_TRUE(write_file(path, all + "\n"));
    if (name != std::string("decisions.jsonl")) {
      EXPECT_NE(problem({run}).find("changed since"), std::string::npos);
    }
    ASSERT_TRUE(write_file(path, all));
  }
  fs::remove(run + "/trace.json");
  EXPECT_EQ(problem({run}), "accepted") << "the report reads none";
}

TEST(Phases, SpansReachFromOneRecordToTheNext) {
  using journal::Phase;
  const auto change = [](int id, Phase phase, int s) {
    journal::DecisionRecord r;
    r.kind = journal::DecisionKind::Phase;
    r.at = Instant() + Span::s(s);
    r.instance = InstanceId(id);
    r.value = static_cast<std::int64_t>(phase);
    return r;
  };
  std::vector<journal::Instance> facts;
  for (const int gpus : {4, 2, 4, 1}) {
    InstanceSpec spec;
    spec.tensor_parallel = gpus;
    facts.push_back({InstanceId(static_cast<std::int32_t>(facts.size())), spec});
  }
  EXPECT_TRUE(phase_spans({}, facts, 100.0).empty()) << "nobody came or went";
  const auto spans =
      phase_spans({change(1, Phase::Spawning, 10), change(0, Phase::Draining, 30), change(1, Phase::Serving, 20),
                   change(0, Phase::Gone, 40), change(2, Phase::Spawning, 50), change(2, Phase::Gone, 60)},
                  facts, 100.0);
  const auto has = [&](std::size_t i, int id, Phase phase, double from, double to) {
    EXPECT_EQ(spans.at(i).instance, InstanceId(id));
    EXPECT_EQ(spans[i].phase, phase);
    EXPECT_DOUBLE_EQ(spans[i].from_s, from);
    EXPECT_DOUBLE_EQ(spans[i].to_s, to);
  };
  ASSERT_EQ(spans.size(), 6U);
  has(0, 0, Phase::Serving, 0, 30);  // it was there before
  has(1, 0, Phase::Draining, 30, 40);
  has(2, 1, Phase::Spawning, 10, 20);
  has(3, 1, Phase::Serving, 20, 100);
  has(4, 2, Phase::Spawning, 50, 60);
  has(5, 3, Phase::Serving, 0, 100);  // nothing was ever said of it
  const auto rows = lanes(spans, facts);
  EXPECT_EQ(rows.at(InstanceId(3)), 0U) << "the smallest first";
  EXPECT_EQ(rows.at(InstanceId(1)), 1U);
  EXPECT_EQ(rows.at(InstanceId(0)), 2U);
  EXPECT_EQ(rows.at(InstanceId(2)), 2U) << "never there with the other of its size";
}

TEST(Timeline, MergingIntervalsKeepsTheMean) {
  Timeline timeline(16);
  double sum = 0.0;
  for (int i = 0; i < 1000; ++i) {
    journal::Sample s;
    s.at = Instant() + Span::s(i);
    s.power = Milliwatts(1000LL * (i % 7));
    sum += i % 7;
    timeline.add(s);
  }
  EXPECT_LE(timeline.intervals(), 16U);
  EXPECT_GE(timeline.intervals(), 8U);
  const Series series = timeline.series(InstanceId(0), Signal::Power);
  double mean = 0.0;
  for (const double v : series) mean += v / static_cast<double>(series.size());
  EXPECT_NEAR(mean, sum / 1000.0, 0.05);
}

TEST(Timeline, TheFleetIsTheSumAndClocksAreAveraged) {
  Timeline timeline(64);
  for (int i = 0; i < 2; ++i) {
    journal::Sample s;
    s.instance = InstanceId(i);
    s.power = Milliwatts(100'000 * (i + 1));
    s.clock = MegaHertz(1000 + 400 * i);
    timeline.add(s);
    s.at = Instant() + Span::ms(300);
    if (i == 0) timeline.add(s);
  }
  EXPECT_DOUBLE_EQ(timeline.fleet(Signal::Power)[0], 300.0);
  EXPECT_DOUBLE_EQ(timeline.fleet(Signal::Clock)[0], 1200.0);
  EXPECT_TRUE(std::isnan(timeline.fleet(Signal::Power)[1]));
  EXPECT_DOUBLE_EQ(timeline.fleet(Signal::Power)[3], 100.0);
}

TEST(Text, NumbersReadWell) {
  EXPECT_EQ(number(0.0), "0");
  EXPECT_EQ(number(12345.6), "12\u202f346");
  EXPECT_EQ(number(1234.6), "1235");
  EXPECT_EQ(whole(19366), "19\u202f366");
  EXPECT_EQ(whole(-1234567), "\u22121\u202f234\u202f567");
  EXPECT_EQ(number(0.01234), "0.0123");
  EXPECT_EQ(number(-3.0, 1), "\u22123");
  EXPECT_EQ(percent(1.0), "100\u202f%");
  EXPECT_EQ(percent(0.99999), "99.99\u202f%") << "less than all is never 100";
  EXPECT_EQ(change(-0.2414), "\u221224.1\u202f%");
  EXPECT_EQ(change(0.00001), "±0\u202f%");
  EXPECT_EQ(duration_ms(0.037), "37.0\u202fµs");
  EXPECT_EQ(duration_ms(4560), "4.56\u202fs");
  EXPECT_EQ(duration_ms(1755.4e3), "29.3\u202fmin");
}

TEST(Axis, TicksCoverTheRange) {
  RandomStream random(5, "axes");
  for (int i = 0; i < 2000; ++i) {
    const double low = std::exp(8.0 * random.normal());
    const double high = low * (1.0 + std::exp(3.0 * random.normal()));
    const Axis linear = linear_axis(low, high, 5, "W");
    ASSERT_LE(linear.low, low * (1 + 1e-6));
    ASSERT_GE(linear.high, high * (1 - 1e-6));
    ASSERT_GE(linear.ticks.size(), 2U);
    ASSERT_LE(linear.ticks.size(), 9U);
    for (std::size_t k = 1; k < linear.ticks.size() && low > 1e-3; ++k) {  // numbers have nine decimals at most
      ASSERT_NE(linear.ticks[k].label, linear.ticks[k - 1].label) << low << " " << high;
    }
    const Axis latency = latency_axis(low, high);
    ASSERT_GE(latency.ticks.size(), 1U) << low << " " << high;
    ASSERT_LE(latency.ticks.size(), 25U) << low << " " << high;
  }
}

TEST(Malformed, TheCheckerItselfFinds) {
  EXPECT_EQ(malformed("<p a=\"1\">x<br/></p>"), "");
  EXPECT_NE(malformed("<p><b></p></b>"), "");
  EXPECT_NE(malformed("<p>a & b</p>"), "");
  EXPECT_NE(malformed("<p>"), "");
  EXPECT_NE(malformed("<p title=\"a<b\">x</p>"), "");
}

/// Writes the three-recipe sample to $WATTLE_REPORT_SAMPLE for a look in a browser or `wattle report`.
TEST(Sample, WritesRunsWhereAsked) {
  const char* where = std::getenv("WATTLE_REPORT_SAMPLE");
  if (where == nullptr) GTEST_SKIP() << "WATTLE_REPORT_SAMPLE is not set";
  SyntheticRun run;
  for (const auto& [recipe, clock] : {std::pair{"static-max", 1410}, {"static-sweet", 1005}, {"eco-freq", 1095}}) {
    run.recipe = recipe;
    run.clock_low = MegaHertz(clock);
    ASSERT_TRUE(write_synthetic_run((fs::path(where) / recipe).string(), run));
  }
}

}  // namespace
}  // namespace wattle::report
