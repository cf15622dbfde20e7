#include "workload/summary.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "workload/trace.h"

namespace wattle::workload {

TEST(Summary, OfAHandCountedTrace) {
  // Gaps 1, 3, 8 s: mean 4, deviations -3, -1, 4, variance 26/3.
  const std::vector<TraceRow> rows = {{Instant() + Span::s(5), 10, 1},
                                      {Instant() + Span::s(6), 20, 2},
                                      {Instant() + Span::s(9), 30, 3},
                                      {Instant() + Span::s(17), 100, 40}};
  const TraceSummary s = summarize(rows);
  EXPECT_EQ(s.rows, 4);
  EXPECT_EQ(s.span, Span::s(12));
  EXPECT_DOUBLE_EQ(s.rate_per_s, 0.25);
  EXPECT_NEAR(s.arrival_cv, 2.943920288775949 / 4.0, 1e-12);
  EXPECT_DOUBLE_EQ(s.peak_rate_10s_per_s, 0.3);
  EXPECT_DOUBLE_EQ(s.prompt.mean, 40.0);
  EXPECT_EQ(s.prompt.p50, 20);
  EXPECT_EQ(s.prompt.p90, 100);
  EXPECT_EQ(s.output.p99, 40);
  EXPECT_EQ(s.output.max, 40);
}

TEST(Summary, WindowsLieEndToEndFromTheFirstArrival) {
  const std::vector<TraceRow> rows = {{Instant() + Span::s(7), 1, 1},
                                      {Instant() + Span::s(17), 1, 1},
                                      {Instant() + Span::s(26), 1, 1},
                                      {Instant() + Span::s(27), 1, 1}};
  EXPECT_DOUBLE_EQ(summarize(rows).peak_rate_10s_per_s, 0.2);  // 17 and 26; 7 and 27 are in windows of their own
}

TEST(Summary, ATraceShorterThanAWindowPeaksAtItsMean) {
  const std::vector<TraceRow> rows = {{Instant(), 1, 1}, {Instant() + Span::s(1), 1, 1}};
  EXPECT_DOUBLE_EQ(summarize(rows).rate_per_s, 1.0);
  EXPECT_DOUBLE_EQ(summarize(rows).peak_rate_10s_per_s, 1.0);
}

TEST(Summary, OfOneRowAndOfNone) {
  const std::vector<TraceRow> one = {{Instant(7), 5, 6}};
  EXPECT_EQ(summarize(one).span, Span());
  EXPECT_EQ(summarize(one).rate_per_s, 0.0);
  EXPECT_EQ(summarize(one).prompt.p99, 5);
  EXPECT_EQ(summarize({}).rows, 0);
}

TEST(Summary, OfTheAzureTraces) {
  const char* data = std::getenv("WATTLE_DATA");
  if (data == nullptr) GTEST_SKIP() << "WATTLE_DATA is not set";
  const std::string folder = std::string(data) + "/azure-llm-2023/";
  // Expected values: the data set's own description.
  const auto conv = load_trace(TraceFormat::Azure, folder + "AzureLLMInferenceTrace_conv.csv");
  ASSERT_TRUE(conv.has_value()) << conv.error().message();
  const TraceSummary c = summarize(conv->rows);
  EXPECT_EQ(c.rows, 19'366);
  EXPECT_NEAR(c.span.seconds(), 3502.0, 0.5);
  EXPECT_NEAR(c.rate_per_s, 5.53, 0.005);
  EXPECT_NEAR(c.arrival_cv, 1.09, 0.005);
  EXPECT_DOUBLE_EQ(c.peak_rate_10s_per_s, 9.8);
  EXPECT_NEAR(c.prompt.mean, 1155.0, 0.5);
  EXPECT_EQ(c.prompt.p50, 1020);
  EXPECT_EQ(c.prompt.p99, 4142);
  EXPECT_NEAR(c.output.mean, 211.0, 0.5);
  EXPECT_EQ(c.output.p50, 129);
  EXPECT_EQ(c.output.p99, 601);
  const auto code = load_trace(TraceFormat::Azure, folder + "AzureLLMInferenceTrace_code.csv");
  ASSERT_TRUE(code.has_value()) << code.error().message();
  const TraceSummary k = summarize(code->rows);
  EXPECT_EQ(k.rows, 8'819);
  EXPECT_NEAR(k.span.seconds(), 3436.0, 0.5);
  EXPECT_NEAR(k.rate_per_s, 2.57, 0.005);
  EXPECT_NEAR(k.arrival_cv, 13.2, 0.06);
  EXPECT_DOUBLE_EQ(k.peak_rate_10s_per_s, 32.7);
  EXPECT_NEAR(k.prompt.mean, 2048.0, 0.5);
  EXPECT_EQ(k.prompt.p50, 1469);
  EXPECT_EQ(k.prompt.p99, 7436);
  EXPECT_NEAR(k.output.mean, 27.9, 0.05);
  EXPECT_EQ(k.output.p50, 13);
  EXPECT_EQ(k.output.p99, 252);
}

}  // namespace wattle::workload
