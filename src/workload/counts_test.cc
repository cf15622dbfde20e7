#include "workload/counts.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "workload/copies.h"
#include "workload/source.h"

namespace wattle::workload {
namespace {

class Ticks final : public RequestSource {
 public:
  explicit Ticks(std::int32_t count) : count_(count) {}
  std::optional<TraceRow> next() override {
    if (given_ == count_) return std::nullopt;
    const TraceRow row{Instant() + Span::s(given_), given_ + 1, 7};
    ++given_;
    return row;
  }
  [[nodiscard]] WorkloadStats stats() const override {
    WorkloadStats stats;
    stats.rows_read = stats.rows_yielded = given_;
    return stats;
  }

 private:
  std::int32_t count_;
  std::int32_t given_ = 0;
};

TEST(Copies, AsManyAsAskedForInOrderAndWithinTheirSpread) {
  const auto source = with_copies(std::make_unique<Ticks>(2000), 2.5, Span::s(30), 1);
  Instant last;
  std::int64_t count = 0;
  while (const auto row = source->next()) {
    EXPECT_GE(row->arrival, last);
    const Span late = row->arrival - (Instant() + Span::s(row->prompt_tokens - 1));
    EXPECT_GE(late, Span());
    EXPECT_LT(late, Span::s(30));
    last = row->arrival;
    ++count;
  }
  EXPECT_NEAR(static_cast<double>(count), 5000.0, 120.0);
  EXPECT_EQ(source->stats().rows_yielded, count);
  EXPECT_EQ(source->stats().thinned, 0);
}

TEST(Copies, BelowOneSomeAreLeftOutAndCounted) {
  const auto source = with_copies(std::make_unique<Ticks>(2000), 0.25, Span::s(30), 1);
  std::int64_t count = 0;
  for (; source->next(); ++count) {
  }
  EXPECT_NEAR(static_cast<double>(count), 500.0, 80.0);
  EXPECT_EQ(source->stats().thinned, 2000 - count);
}

TEST(Counts, BinsAreEvenlySpaced) {
  const auto bins =
      parse_counts("Time,TIMESTAMP\n2024-05-12 00:00:00,3\n2024-05-12 00:00:10,0\n2024-05-12 00:00:20,5\n", "c");
  ASSERT_TRUE(bins.has_value()) << bins.error().message();
  EXPECT_EQ(bins->width, Span::s(10));
  EXPECT_EQ(bins->counts, (std::vector<std::int32_t>{3, 0, 5}));
  const auto gap =
      parse_counts("Time,TIMESTAMP\n2024-05-12 00:00:00,3\n2024-05-12 00:00:10,0\n2024-05-12 00:00:30,5\n", "c");
  ASSERT_FALSE(gap.has_value());
  EXPECT_NE(gap.error().message().find("c:4"), std::string::npos) << gap.error().message();
  EXPECT_FALSE(parse_counts("Time,TIMESTAMP\n2024-05-12 00:00:00,3\n", "c").has_value());
  EXPECT_FALSE(parse_counts("Time,TIMESTAMP\nnoon,3\n", "c").has_value());
}

TEST(Counts, LengthsFollowTheServicesHistogram) {
  const char* text =
      "service,field,bin_lo,bin_hi,share\n"
      "chat,ContextTokens,0,100,0.25\nchat,ContextTokens,100,300,0.75\n"
      "chat,GeneratedTokens,10,20,1\ncode,ContextTokens,5,6,1\n";
  const auto lengths = histogram_lengths(text, "h", "chat", 1);
  ASSERT_TRUE(lengths.has_value()) << lengths.error().message();
  int small = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto pair = (*lengths)->draw();
    EXPECT_LE(pair.prompt, 300.0);
    EXPECT_GE(pair.output, 10.0);
    EXPECT_LE(pair.output, 20.0);
    small += pair.prompt < 100.0 ? 1 : 0;
  }
  EXPECT_NEAR(small, 1000, 110);
  EXPECT_NE(histogram_lengths(text, "h", "mail", 1).error().message().find("it has chat, code"), std::string::npos);
  EXPECT_FALSE(histogram_lengths(text, "h", "code", 1).has_value());
}

TEST(Counts, ASourceYieldsEveryRequestOfItsBinsInOrder) {
  const std::string folder = ::testing::TempDir();
  ASSERT_TRUE(write_file(folder + "/counts.csv",
                         "Time,TIMESTAMP\n2024-05-12 00:00:00,30\n2024-05-12 00:00:10,0\n2024-05-12 00:00:20,50\n"));
  ASSERT_TRUE(
      write_file(folder + "/lengths.csv",
                 "service,field,bin_lo,bin_hi,share\nchat,ContextTokens,5,6,1\nchat,GeneratedTokens,10,900,1\n"));
  WorkloadOptions options;
  options.trace = folder + "/counts.csv";
  options.format = TraceFormat::Counts;
  options.lengths = folder + "/lengths.csv";
  options.service = "chat";
  options.max_output_tokens = 400;
  const auto count = [&](const WorkloadOptions& of) {
    auto source = make_source(of, "", "", 1);
    EXPECT_TRUE(source.has_value()) << source.error().message();
    std::vector<std::int64_t> by_bin(3, 0);
    Instant last;
    while (const auto row = (*source)->next()) {
      EXPECT_GE(row->arrival, last);
      EXPECT_LE(row->output_tokens, 400);
      last = row->arrival;
      ++by_bin.at(static_cast<std::size_t>(last.ns() / Span::s(10).ns()));
    }
    EXPECT_GT((*source)->stats().clamped_outputs, 0);
    return by_bin;
  };
  EXPECT_EQ(count(options), (std::vector<std::int64_t>{30, 0, 50}));
  options.start = Span::s(20);  // the slice's start is 0
  EXPECT_EQ(count(options), (std::vector<std::int64_t>{50, 0, 0}));
  options.copies = 3.0;
  options.copies_spread = Span();
  EXPECT_EQ(count(options), (std::vector<std::int64_t>{150, 0, 0}));
  options.lengths.clear();
  EXPECT_NE(make_source(options, "", "", 1).error().message().find("workload.lengths"), std::string::npos);
}

}  // namespace
}  // namespace wattle::workload
