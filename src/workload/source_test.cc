#include "workload/source.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <vector>

#include "base/digest.h"
#include "base/file.h"
#include "base/scratch_folder.h"

namespace wattle::workload {

namespace {
namespace fs = std::filesystem;

/// A data directory, and another folder next to it.
class Folder {
 public:
  Folder() {
    fs::create_directory(data());
    fs::create_directory(beside());
  }
  [[nodiscard]] std::string data() const { return root_.file("data"); }
  [[nodiscard]] std::string beside() const { return root_.file("beside"); }

 private:
  ScratchFolder root_;
};

constexpr const char* kTrace =
    "arrived_at,num_prefill_tokens,num_decode_tokens\n10,100,1\n11,200,2\n12,300,3\n13,400,4\n14,500,5\n";

WorkloadOptions trace_options() {
  WorkloadOptions options;
  options.trace = "t.csv";
  options.format = TraceFormat::Vidur;
  return options;
}

std::vector<TraceRow> drain(RequestSource& source) {
  std::vector<TraceRow> rows;
  while (const auto row = source.next()) rows.push_back(*row);
  EXPECT_FALSE(source.next().has_value());
  return rows;
}

std::string error_of(const WorkloadOptions& options) {
  const auto source = make_source(options, "", "", 1);
  EXPECT_FALSE(source.has_value());
  return source ? "" : source.error().message();
}

struct Moments {
  double mean = 0.0;
  double std = 0.0;
};
template <typename F>
Moments moments(std::size_t n, F&& value) {
  double sum = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    const double v = value(i);
    sum += v;
    squares += v * v;
  }
  const double mean = sum / static_cast<double>(n);
  return {mean, std::sqrt(squares / static_cast<double>(n) - mean * mean)};
}
double gap_seconds(const std::vector<TraceRow>& rows, std::size_t i) {
  return (rows[i].arrival - (i == 0 ? Instant() : rows[i - 1].arrival)).seconds();
}
}  // namespace

TEST(TraceSource, LooksInTheDataDirectoryThenBesideTheScenario) {
  const Folder folder;
  ASSERT_TRUE(write_file(folder.beside() + "/t.csv", kTrace).has_value());
  auto source = make_source(trace_options(), folder.data(), folder.beside(), 1);
  ASSERT_TRUE(source.has_value()) << source.error().message();
  EXPECT_EQ(drain(**source).size(), 5U);
  ASSERT_TRUE(write_file(folder.data() + "/t.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n"));
  source = make_source(trace_options(), folder.data(), folder.beside(), 1);
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ(drain(**source).size(), 1U);

  WorkloadOptions missing = trace_options();
  missing.trace = "u.csv";
  const auto none = make_source(missing, folder.data(), folder.beside(), 1);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().where, "u.csv");
  EXPECT_NE(none.error().what.find(folder.data() + "/u.csv"), std::string::npos);
  EXPECT_NE(none.error().what.find(folder.beside() + "/u.csv"), std::string::npos);
}

TEST(TraceSource, AFormatThatIsNotStatedIsThatOfTheFirstLine) {
  const Folder folder;
  WorkloadOptions options;
  options.trace = "t.csv";
  ASSERT_TRUE(write_file(folder.data() + "/t.csv", kTrace).has_value());
  const auto vidur = make_source(options, folder.data(), "", 1);
  ASSERT_TRUE(vidur.has_value()) << vidur.error().message();
  EXPECT_EQ(drain(**vidur).size(), 5U);
  ASSERT_TRUE(write_file(folder.data() + "/t.csv", "when,in,out\n1,2,3\n").has_value());
  const auto unknown = make_source(options, folder.data(), "", 1);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().where, folder.data() + "/t.csv:1");
}

TEST(TraceSource, SlicesRebasesScalesAndClampsWithCounts) {
  const Folder folder;
  ASSERT_TRUE(write_file(folder.data() + "/t.csv", kTrace).has_value());
  WorkloadOptions options = trace_options();
  options.start = Span::ms(500);  // the trace's own time counts from its first row
  options.duration = Span::ms(3500);
  options.rate_scale = 2.0;
  options.max_prompt_tokens = 250;
  options.max_output_tokens = 3;
  auto source = make_source(options, folder.data(), "", 1);
  ASSERT_TRUE(source.has_value()) << source.error().message();
  const auto rows = drain(**source);
  ASSERT_EQ(rows.size(), 3U);  // 11, 12, 13; 14 is at start + duration, which the slice leaves out
  EXPECT_EQ(rows[0].arrival, Instant(250'000'000));
  EXPECT_EQ(rows[1].arrival, Instant(750'000'000));
  EXPECT_EQ(rows[2].arrival, Instant(1'250'000'000));
  EXPECT_EQ(rows[0].prompt_tokens, 200);
  EXPECT_EQ(rows[1].prompt_tokens, 250);
  EXPECT_EQ(rows[2].output_tokens, 3);
  const WorkloadStats stats = (*source)->stats();
  EXPECT_EQ(stats.rows_read, 5);
  EXPECT_EQ(stats.rows_yielded, 3);
  EXPECT_EQ(stats.outside_slice, 2);
  EXPECT_EQ(stats.clamped_prompts, 2);
  EXPECT_EQ(stats.clamped_outputs, 1);
  EXPECT_EQ(stats.skipped_failed, 0);
}

TEST(TraceSource, AnEmptySliceIsAnError) {
  const Folder folder;
  ASSERT_TRUE(write_file(folder.data() + "/t.csv", kTrace).has_value());
  WorkloadOptions options = trace_options();
  options.start = Span::s(5);
  const auto source = make_source(options, folder.data(), "", 1);
  ASSERT_FALSE(source.has_value());
  EXPECT_EQ(source.error().where, "workload.start_s");
  EXPECT_NE(source.error().what.find("the last comes at 4 s"), std::string::npos) << source.error().what;
}

TEST(Sources, WhateverLeavesNoRequestIsRefusedByTheKeyThatDid) {
  const Folder folder;
  ASSERT_TRUE(write_file(folder.data() + "/t.csv", kTrace).has_value());
  ASSERT_TRUE(
      write_file(folder.data() + "/none.csv", "Time,TIMESTAMP\n2024-05-10 00:00:00,0\n2024-05-10 00:00:10,0\n"));
  ASSERT_TRUE(write_file(folder.data() + "/lengths.csv",
                         "service,field,bin_lo,bin_hi,share\ns,ContextTokens,1,9,1\ns,GeneratedTokens,1,9,1\n"));
  const auto refused_at = [&](const WorkloadOptions& options) {
    const auto source = make_source(options, folder.data(), "", 1);
    return source ? std::string() : source.error().where;
  };
  WorkloadOptions none;
  none.trace = "none.csv";
  none.format = TraceFormat::Counts;
  none.lengths = "lengths.csv";
  none.service = "s";
  EXPECT_EQ(refused_at(none), "workload.trace");
  for (WorkloadOptions options : {WorkloadOptions(), trace_options()}) {
    options.copies = 1e-9;
    EXPECT_EQ(refused_at(options), "workload.copies");
    options.copies = 1.0;
    options.start = Span::us(1500);
    options.duration = Span::us(1);
    EXPECT_EQ(refused_at(options), "workload.duration_s");
    options.peak_rate_per_s = 5.0;
    EXPECT_EQ(refused_at(options), "workload.duration_s");
    options.start = Span::s(1'000'000);
    EXPECT_EQ(refused_at(options), "workload.start_s");
  }
}

TEST(Sources, TheFirstRequestIsNotCountedBeforeItIsHandedOver) {
  const auto source = make_source(WorkloadOptions(), "", "", 1);
  ASSERT_TRUE(source.has_value());
  EXPECT_EQ((*source)->stats().rows_yielded, 0);
  ASSERT_TRUE((*source)->next().has_value());
  EXPECT_EQ((*source)->stats().rows_yielded, 1);
}

TEST(SyntheticSource, PoissonArrivalsAndLognormalLengthsHaveTheirMoments) {
  WorkloadOptions options;
  options.requests = 200'000;
  options.rate_per_s = 4.0;
  options.prompt_mean = 900.0;
  options.prompt_std = 450.0;
  options.max_prompt_tokens = 1'000'000;
  options.max_output_tokens = 1'000'000;
  auto source = make_source(options, "", "", 7);
  ASSERT_TRUE(source.has_value()) << source.error().message();
  const auto rows = drain(**source);
  ASSERT_EQ(rows.size(), 200'000U);
  // Standard errors: gaps 0.25/447 = 0.0006; prompts 1.0; outputs 0.45. Each margin is at least five of them.
  const auto gaps = moments(rows.size(), [&](std::size_t i) { return gap_seconds(rows, i); });
  EXPECT_NEAR(gaps.mean, 0.25, 0.003);
  EXPECT_NEAR(gaps.std / gaps.mean, 1.0, 0.02);
  const auto prompts = moments(rows.size(), [&](std::size_t i) { return rows[i].prompt_tokens; });
  EXPECT_NEAR(prompts.mean, 900.0, 6.0);
  EXPECT_NEAR(prompts.std, 450.0, 10.0);
  const auto outputs = moments(rows.size(), [&](std::size_t i) { return rows[i].output_tokens; });
  EXPECT_NEAR(outputs.mean, 200.0, 3.0);
}

TEST(SyntheticSource, GammaArrivalsHaveTheirVariation) {
  for (const double cv : {0.0, 0.5, 3.0}) {
    WorkloadOptions options;
    options.requests = 200'000;
    options.rate_per_s = 10.0;
    options.arrival_cv = cv;
    auto source = make_source(options, "", "", 3);
    ASSERT_TRUE(source.has_value());
    const auto rows = drain(**source);
    const auto gaps = moments(rows.size(), [&](std::size_t i) { return gap_seconds(rows, i); });
    EXPECT_NEAR(gaps.mean, 0.1, 0.1 * 0.012 * (cv + 0.01)) << cv;
    EXPECT_NEAR(gaps.std / gaps.mean, cv, 0.05 * cv + 1e-6) << cv;
  }
}

TEST(SyntheticSource, EmpiricalPairsStayPairs) {
  const Folder folder;
  ASSERT_TRUE(write_file(folder.beside() + "/pairs.csv", "input_tokens,output_tokens\n10,1\n20,2\n30,3\n").has_value());
  WorkloadOptions options;
  options.lengths = "pairs.csv";
  options.requests = 3000;
  auto source = make_source(options, "", folder.beside(), 5);
  ASSERT_TRUE(source.has_value()) << source.error().message();
  std::array<int, 4> seen{};
  for (const TraceRow& row : drain(**source)) {
    ASSERT_EQ(row.prompt_tokens, 10 * row.output_tokens);
    ++seen.at(static_cast<std::size_t>(row.output_tokens));
  }
  for (std::size_t i = 1; i <= 3; ++i) EXPECT_NEAR(seen.at(i), 1000, 150);
}

TEST(SyntheticSource, SameSeedSameRequestsOtherSeedOthers) {
  WorkloadOptions options;
  const auto digest = [&](std::uint64_t seed) {
    auto source = make_source(options, "", "", seed);
    Digest seen;
    for (const TraceRow& row : drain(**source)) {
      seen.add(row.arrival.ns());
      seen.add(row.prompt_tokens);
      seen.add(row.output_tokens);
    }
    return seen.value();
  };
  EXPECT_EQ(digest(1), digest(1));
  EXPECT_NE(digest(1), digest(2));
}

TEST(SyntheticSource, LengthsDoNotMoveArrivals) {
  WorkloadOptions options;
  auto plain = make_source(options, "", "", 1);
  options.prompt_std = 0.0;
  auto other = make_source(options, "", "", 1);
  while (const auto row = (*plain)->next()) EXPECT_EQ(row->arrival, (*other)->next()->arrival);
}

TEST(SyntheticSource, SlicesStopDrawing) {
  WorkloadOptions options;
  options.requests = std::int64_t{1} << 28;  // draining all of it would take far longer than this test may
  options.rate_per_s = 100.0;
  options.arrival_cv = 0.0;
  options.start = Span::s(1);
  options.duration = Span::s(2);
  auto source = make_source(options, "", "", 1);
  ASSERT_TRUE(source.has_value()) << source.error().message();
  const auto rows = drain(**source);
  ASSERT_EQ(rows.size(), 200U);
  EXPECT_EQ(rows.front().arrival, Instant());
  EXPECT_EQ((*source)->stats().outside_slice, 100);
}

TEST(SyntheticSource, AzureConversationStandInHasThePublishedStatistics) {
  WorkloadOptions options;
  options.synthetic = "azure-conv";
  options.max_prompt_tokens = 100'000;
  auto source = make_source(options, "", "", 1);
  ASSERT_TRUE(source.has_value()) << source.error().message();
  const auto rows = drain(**source);
  ASSERT_EQ(rows.size(), 19'366U);
  const auto gaps = moments(rows.size(), [&](std::size_t i) { return gap_seconds(rows, i); });
  EXPECT_NEAR(1.0 / gaps.mean, 5.53, 0.15);
  EXPECT_NEAR(gaps.std / gaps.mean, 1.09, 0.04);
  EXPECT_NEAR(rows.back().arrival.seconds(), 3502.0, 100.0);
  const auto check = [&](auto&& value, double mean, double p50, double p99) {
    std::vector<double> v(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) v[i] = value(rows[i]);
    EXPECT_NEAR(moments(v.size(), [&](std::size_t i) { return v[i]; }).mean, mean, mean * 0.025);
    std::sort(v.begin(), v.end());
    EXPECT_NEAR(v[v.size() / 2], p50, p50 * 0.05);
    EXPECT_NEAR(v[v.size() * 99 / 100], p99, p99 * 0.05);
  };
  check([](const TraceRow& r) { return r.prompt_tokens; }, 1155, 1020, 4142);
  check([](const TraceRow& r) { return r.output_tokens; }, 211, 129, 601);
}

TEST(SyntheticSource, MlperfLengthsArriveAsStated) {
  WorkloadOptions options;
  options.synthetic = "mlperf-openorca";
  options.rate_per_s = 4.0;
  auto source = make_source(options, "", "", 1);
  ASSERT_TRUE(source.has_value()) << source.error().message();
  const auto rows = drain(**source);
  ASSERT_EQ(rows.size(), 24'576U);
  const auto gaps = moments(rows.size(), [&](std::size_t i) { return gap_seconds(rows, i); });
  EXPECT_NEAR(1.0 / gaps.mean, 4.0, 0.1);
  EXPECT_NEAR(moments(rows.size(), [&](std::size_t i) { return rows[i].prompt_tokens; }).mean, 204.0, 4.0);
  EXPECT_NEAR(moments(rows.size(), [&](std::size_t i) { return rows[i].output_tokens; }).mean, 219.0, 4.0);
}

TEST(MakeSource, RefusesOptionsByName) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto expect_key = [](const char* key, auto&& change) {
    WorkloadOptions options;
    change(options);
    const std::string error = error_of(options);
    EXPECT_TRUE(error.starts_with("workload." + std::string(key) + ": ")) << error;
  };
  for (const double bad : {0.0, -1.0, kNan, kInf}) {
    expect_key("rate_scale", [&](WorkloadOptions& o) { o.rate_scale = bad; });
    expect_key("rate_per_s", [&](WorkloadOptions& o) { o.rate_per_s = bad; });
    expect_key("prompt_mean", [&](WorkloadOptions& o) { o.prompt_mean = bad; });
    expect_key("output_mean", [&](WorkloadOptions& o) { o.output_mean = bad; });
  }
  for (const double bad : {-1.0, kNan, kInf}) {
    expect_key("arrival_cv", [&](WorkloadOptions& o) { o.arrival_cv = bad; });
    expect_key("prompt_std", [&](WorkloadOptions& o) { o.prompt_std = bad; });
    expect_key("output_std", [&](WorkloadOptions& o) { o.output_std = bad; });
  }
  expect_key("start_s", [](WorkloadOptions& o) { o.start = Span::ns(-1); });
  expect_key("duration_s", [](WorkloadOptions& o) { o.duration = Span(); });
  expect_key("requests", [](WorkloadOptions& o) { o.requests = 0; });
  expect_key("max_prompt_tokens", [](WorkloadOptions& o) { o.max_prompt_tokens = 0; });
  expect_key("max_output_tokens", [](WorkloadOptions& o) { o.max_output_tokens = 0; });
  expect_key("synthetic", [](WorkloadOptions& o) { o.synthetic = "azure"; });
  expect_key("rate_per_s", [](WorkloadOptions& o) { o.rate_per_s = 1e-9; });  // past the 64-bit clock
}

RC_GTEST_PROP(SyntheticSource, RowsAreAlwaysWithinTheirLimitsAndInOrder, ()) {
  WorkloadOptions options;
  options.requests = *rc::gen::inRange<std::int64_t>(1, 300);
  options.rate_per_s = *rc::gen::inRange(1, 100);
  options.arrival_cv = *rc::gen::inRange(0, 50) / 5.0;
  options.prompt_mean = *rc::gen::inRange(1, 2000) / 10.0;
  options.prompt_std = *rc::gen::inRange(0, 100000);
  options.max_prompt_tokens = *rc::gen::inRange(1, 500);
  options.rate_scale = *rc::gen::inRange(1, 40) / 10.0;
  auto source = make_source(options, "", "", *rc::gen::arbitrary<std::uint64_t>());
  RC_ASSERT(source.has_value());
  Instant before;
  std::int64_t count = 0;
  while (const auto row = (*source)->next()) {
    RC_ASSERT(row->arrival >= before);
    RC_ASSERT(row->prompt_tokens >= 1 && row->prompt_tokens <= options.max_prompt_tokens);
    RC_ASSERT(row->output_tokens >= 1 && row->output_tokens <= options.max_output_tokens);
    before = row->arrival;
    ++count;
  }
  RC_ASSERT(count == options.requests);
  RC_ASSERT((*source)->stats().rows_yielded == count);
}

TEST(Source, APeakAndATroughReshapeAnySourceAndCountWhatTheyLeaveOut) {
  WorkloadOptions options;
  options.rate_per_s = 5.0;
  options.requests = 3000;
  options.peak_rate_per_s = 20.0;
  options.trough_rate_per_s = 1.0;
  const auto source = make_source(options, "", "", 1);
  ASSERT_TRUE(source) << source.error().message();
  const auto rows = drain(**source);
  const auto stats = (*source)->stats();
  EXPECT_EQ(stats.rows_yielded, static_cast<std::int64_t>(rows.size()));
  EXPECT_EQ(stats.rows_yielded + stats.thinned, 3000);
  EXPECT_GT(stats.thinned, 300);
  options.trough_rate_per_s = 30.0;
  EXPECT_NE(error_of(options).find("workload.trough_rate_per_s"), std::string::npos);
  options.peak_rate_per_s = 0.0;
  EXPECT_NE(error_of(options).find("workload.peak_rate_per_s"), std::string::npos);
}

}  // namespace wattle::workload
