#include "reproduce/freesh_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/random.h"
#include "reproduce/freesh.h"

namespace wattle::reproduce::freesh {
namespace {

TEST(FreeshLoad, TheBusiestFiveSecondsOfTheMeanRateAreThePeak) {
  EXPECT_DOUBLE_EQ(mean_of_peak(0.0), 0.0);
  for (const double mean : {0.05, 1.0, 15.0}) {
    RandomStream random(1, "test");
    double sum = 0.0;
    constexpr int kDraws = 2000;
    for (int draw = 0; draw < kDraws; ++draw) {
      std::array<int, 60> bins{};
      for (double at = random.exponential() / mean; at < 300.0; at += random.exponential() / mean) {
        ++bins[static_cast<std::size_t>(at / 5.0)];
      }
      sum += *std::max_element(bins.begin(), bins.end()) / 5.0;
    }
    EXPECT_NEAR(mean_of_peak(sum / kDraws), mean, 0.05 * mean) << mean;
  }
}

TEST(FreeshLoad, TheTraceBehindTheReleasedPeaksSharedOutByType) {
  if (std::getenv("WATTLE_DATA") == nullptr) GTEST_SKIP() << "WATTLE_DATA is not set";
  const auto data = load_data();
  ASSERT_TRUE(data.has_value());
  for (const std::size_t partition : {0U, 1U}) {
    const auto rows = draw_load(*data, partition, {24, 25}, 1.0, 1);
    ASSERT_TRUE(rows.has_value());
    // 12 May 2024, 12:00 to 13:00: 106,503 requests, of which the testbed gets every second one.
    EXPECT_NEAR(static_cast<double>(rows->size()), 106'503 / 2.0, 60.0);
    EXPECT_LT(rows->back().arrival, Instant() + Span::s(3600));
    // The means that belong to the released peaks add up to the trace's own mean rate, which was not used for them.
    double means = 0.0;
    for (const std::size_t w : {24U, 25U}) {
      const auto problem = data->window(w * kSlotsPerWindow, kSlotsPerWindow, 1.0);
      for (const auto& type : problem.partitions[partition].types) {
        for (const double peak : type.demand_per_s) means += mean_of_peak(peak) / 12.0;
      }
    }
    EXPECT_NEAR(means, 106'503 / 3600.0, 0.1 * 106'503 / 3600.0) << "partition " << partition + 1;
    const Cuts cuts = cuts_of(partition);
    double tokens = 0.0, many = 0.0;
    for (const auto& row : *rows) {
      if (row.output_tokens < cuts.answer || row.prompt_tokens < cuts.prompt) continue;
      tokens += row.output_tokens;
      ++many;
    }
    EXPECT_NEAR(tokens / many, partition == 0 ? 705.0 : 574.0, 25.0) << "as rated";
  }
}

}  // namespace
}  // namespace wattle::reproduce::freesh
