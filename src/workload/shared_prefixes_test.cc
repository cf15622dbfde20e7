#include "workload/shared_prefixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "workload/copies.h"
#include "workload/source.h"

namespace wattle::workload {
namespace {

std::vector<TraceRow> drawn(const WorkloadOptions& options) {
  auto source = make_source(options, "", "", 7);
  EXPECT_TRUE(source.has_value()) << source.error().message();
  std::vector<TraceRow> rows;
  while (auto row = (*source)->next()) rows.push_back(std::move(*row));
  return rows;
}

WorkloadOptions of_requests(std::int64_t requests) {
  WorkloadOptions options;
  options.requests = requests;
  options.prompt_mean = 1500.0;
  return options;
}

/// Blocks that a row's prompt has in common with any before it, from its beginning.
std::vector<std::size_t> seen_before(const std::vector<TraceRow>& rows) {
  std::set<std::uint64_t> seen;
  std::vector<std::size_t> known;
  for (const TraceRow& row : rows) {
    const auto& chain = row.content->chain;
    known.push_back(static_cast<std::size_t>(
        std::ranges::find_if_not(chain, [&](std::uint64_t h) { return seen.contains(h); }) - chain.begin()));
    seen.insert(chain.begin(), chain.end());
  }
  return known;
}

TEST(SharedPrefixes, NothingIsSharedUnlessSaid) {
  for (const TraceRow& row : drawn(of_requests(50))) EXPECT_EQ(row.content, nullptr);
}

TEST(SharedPrefixes, SystemPromptsAreSharedAsOftenAndAsFarAsSaid) {
  WorkloadOptions options = of_requests(4000);
  const auto plain = drawn(options);
  options.prefix.share = 0.25;
  options.prefix.prefixes = 5;
  options.prefix.tokens = 200;  // twelve blocks
  const auto rows = drawn(options);
  ASSERT_EQ(rows.size(), plain.size());
  const auto known = seen_before(rows);
  int alike = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].arrival, plain[i].arrival);
    EXPECT_EQ(rows[i].prompt_tokens, plain[i].prompt_tokens);
    EXPECT_EQ(rows[i].content->chain.size(), static_cast<std::size_t>(rows[i].prompt_tokens / 16));
    EXPECT_LE(known[i], 12U);
    alike += known[i] > 0 ? 1 : 0;
    const bool all_asked = i > 1000;  // each of the five before, to its end
    EXPECT_TRUE(!all_asked || known[i] == 0 || known[i] == std::min<std::size_t>(12, rows[i].content->chain.size()));
  }
  EXPECT_NEAR(alike / 4000.0, 0.25, 0.03);
}

TEST(SharedPrefixes, ATurnOfAConversationBeginsWithTheOneBefore) {
  WorkloadOptions options = of_requests(2000);
  options.prefix.session_share = 0.6;
  options.prefix.sessions = 20;
  const auto rows = drawn(options);
  const auto known = seen_before(rows);
  int turns = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (known[i] == 0) continue;
    ++turns;
    const auto& chain = rows[i].content->chain;  // it continues an earlier row, as far as both are known
    const bool one = std::any_of(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(i), [&](const TraceRow& r) {
      const auto& other = r.content->chain;
      return std::min(other.size(), chain.size()) == known[i] && other[known[i] - 1] == chain[known[i] - 1];
    });
    EXPECT_TRUE(one) << i;
  }
  EXPECT_NEAR(turns / 2000.0, 0.6, 0.05);
}

TEST(SharedPrefixes, CopiesAreOtherPeoples) {
  std::vector<TraceRow> rows;
  {
    const std::uint64_t ids[] = {1, 2, 3};
    std::vector<TraceRow> two(2, TraceRow{Instant(), 1536, 1, chained(512, ids)});
    auto source = with_copies(std::make_unique<ListSource>(two), 3.0, Span::s(1), 1);
    while (auto row = source->next()) rows.push_back(std::move(*row));
  }
  ASSERT_EQ(rows.size(), 6U);
  std::multiset<std::uint64_t> last;
  for (const TraceRow& row : rows) last.insert(row.content->chain.back());
  for (const std::uint64_t hash : last) EXPECT_EQ(last.count(hash), 2U) << "both rows of each copy, no others";
}

}  // namespace
}  // namespace wattle::workload
