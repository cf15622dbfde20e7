#include "workload/reshape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace wattle::workload {
namespace {

/// Windows of 10 s, each with this number of evenly spaced requests, lengths counting up.
std::vector<TraceRow> windows(const std::vector<int>& requests) {
  std::vector<TraceRow> rows;
  for (std::size_t w = 0; w < requests.size(); ++w) {
    for (int i = 0; i < requests[w]; ++i) {
      const double at = 10.0 * (static_cast<double>(w) + (i + 0.5) / requests[w]);
      rows.push_back({Instant(Span::from_seconds(at).ns()), static_cast<std::int32_t>(rows.size()) + 1, 1});
    }
  }
  // What follows the last full window: one request at its end.
  rows.push_back({Instant(Span::from_seconds(10.0 * static_cast<double>(requests.size())).ns()), 1, 1});
  return rows;
}

WorkloadOptions range(double peak, double trough) {
  WorkloadOptions options;
  options.peak_rate_per_s = peak;
  options.trough_rate_per_s = trough;
  options.rate_window = Span::s(10);
  return options;
}

/// Requests in [from, to) seconds.
std::int64_t count(const std::vector<TraceRow>& rows, double from, double to) {
  return std::ranges::count_if(
      rows, [&](const TraceRow& r) { return r.arrival.seconds() >= from && r.arrival.seconds() < to; });
}

TEST(Reshape, ScalesTimeSoThatTheBusiestWindowHasThePeakRate) {
  const auto rows = windows({20, 50, 40});
  const auto out = reshape(rows, range(10.0, 0.0));
  ASSERT_TRUE(out) << out.error().message();
  ASSERT_EQ(out->size(), rows.size()) << "nothing is left out";
  EXPECT_EQ(count(*out, 0, 5), 20);
  EXPECT_EQ(count(*out, 5, 10), 50) << "10 a second";
  EXPECT_EQ(out->back().arrival, Instant() + Span::s(15));
}

TEST(Reshape, TheTroughThinsCalmWindowsMostAndKeepsOrderAndPeak) {
  const auto out = reshape(windows({20, 50, 40}), range(5.0, 0.5));
  ASSERT_TRUE(out) << out.error().message();
  EXPECT_EQ(count(*out, 10, 20), 50);
  EXPECT_NEAR(static_cast<double>(count(*out, 0, 10)), 5, 1);
  EXPECT_NEAR(static_cast<double>(count(*out, 20, 30)), 35, 1) << "as far between as it was";
  EXPECT_TRUE(std::ranges::is_sorted(*out, {}, [](const TraceRow& r) { return r.arrival.ns(); }));
  // Evenly: the calm window's five are a fifth or so of it apart.
  EXPECT_NEAR((*out)[1].arrival.seconds() - (*out)[0].arrival.seconds(), 2.0, 0.6);
}

TEST(Reshape, RefusesWhatItCannotReach) {
  const auto above = reshape(windows({20, 50}), range(5.0, 3.0));
  ASSERT_FALSE(above);
  EXPECT_NE(above.error().message().find("above the 2 requests/s of the calmest"), std::string::npos)
      << above.error().message();
  auto options = range(5.0, 0.0);
  options.rate_window = Span::s(1000);
  EXPECT_FALSE(reshape(windows({20, 50}), options));
  EXPECT_FALSE(reshape({}, range(5.0, 0.0)));
}

TEST(Reshape, AConstantRateStaysConstant) {
  const auto out = reshape(windows({30, 30, 30}), range(3.0, 1.0));
  ASSERT_TRUE(out) << out.error().message();
  EXPECT_EQ(count(*out, 0, 30), 90);
}

}  // namespace
}  // namespace wattle::workload
