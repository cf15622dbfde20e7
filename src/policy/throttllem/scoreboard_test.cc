#include "policy/throttllem/scoreboard.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace wattle::policy {
namespace {

Projected request(std::int64_t id, std::int64_t start, std::int32_t prompt, std::int32_t predicted,
                  std::int32_t limit = 1'000'000) {
  return {RequestId{id}, start, prompt, predicted, limit, Instant::never(), false};
}

TEST(Scoreboard, BlocksGrowWithTheContext) {
  Scoreboard board(16);
  board.add(request(1, 0, 15, 4));  // holds 15, 16, 17, 18 tokens in iterations 0 to 3
  EXPECT_EQ(board.ends()[0], 4);
  EXPECT_EQ(board.peak_blocks(), 2);
  board.add(request(2, 0, 15, 2));  // ends at one block, before the other begins its second
  EXPECT_EQ(board.peak_blocks(), 2);
  board.add(request(3, 0, 15, 3));  // two blocks beside the first one's two
  EXPECT_EQ(board.peak_blocks(), 4);
}

TEST(Scoreboard, AnOutlivedPredictionIsReprojectedAtTheLimit) {
  Scoreboard board(16);
  board.add(request(1, 0, 10, 5, 100));
  board.advance(4);
  EXPECT_EQ(board.ends()[0], 5);
  board.advance(5);  // iteration 5 begins and it is still here
  EXPECT_EQ(board.ends()[0], 100);
  board.advance(120);  // beyond its limit too: any moment now
  EXPECT_EQ(board.ends()[0], 121);
  EXPECT_EQ(board.peak_blocks(), (120 + 10 + 15) / 16);
}

TEST(Scoreboard, ASecondPredictionComesBeforeTheLimit) {
  Scoreboard board(16, 2);
  auto p = request(1, 0, 10, 5, 100);
  p.second_tokens = 30;
  board.add(p);
  board.advance(7);  // 5 and the grace of 2 are over
  EXPECT_EQ(board.ends()[0], 30);
  EXPECT_EQ(board.first_overrun(), 32);
  board.advance(31);
  EXPECT_EQ(board.ends()[0], 32);
  board.advance(32);
  EXPECT_EQ(board.ends()[0], 100);
}

TEST(Scoreboard, GraceExpectsTheEndInTheNextIteration) {
  Scoreboard board(16, 3);
  board.add(request(1, 0, 10, 5, 100));
  for (const std::int64_t next : {5, 6, 7}) {
    board.advance(next);
    EXPECT_EQ(board.ends()[0], next + 1);
  }
  EXPECT_EQ(board.first_overrun(), 8);
  board.advance(8);
  EXPECT_EQ(board.ends()[0], 100);
}

TEST(Scoreboard, NonsenseIsClamped) {
  Scoreboard board(16);
  board.add(request(1, 7, -5, 0, 0));  // starts in the future, no prompt, no output
  EXPECT_EQ(board.requests()[0].start, 0);
  EXPECT_EQ(board.ends()[0], 1);
  EXPECT_EQ(board.peak_blocks(), 0);
  EXPECT_FALSE(board.remove(RequestId{2}));
  EXPECT_FALSE(board.restart(RequestId{2}, 0));
  EXPECT_TRUE(board.remove(RequestId{1}));
  EXPECT_TRUE(board.empty());
  EXPECT_EQ(board.peak_blocks(), 0);
}

TEST(Scoreboard, CountsTheLost) {
  Scoreboard board(16);
  auto lost = request(1, 0, 10, 5);
  lost.lost = true;
  board.add(lost);
  board.add_virtually([&] {
    auto other = request(2, 0, 10, 5);
    other.lost = true;
    return other;
  }());
  EXPECT_EQ(board.lost(), 2);
  board.roll_back();
  EXPECT_EQ(board.lost(), 1);
  board.remove(RequestId{1});
  EXPECT_EQ(board.lost(), 0);
}

/// The definition, one entry per iteration.
struct BruteForce {
  std::int32_t block_size;
  std::int32_t grace;
  std::map<std::int64_t, Projected> requests;
  std::int64_t next = 0;

  std::int64_t end(const Projected& p) const {
    if (next < p.start + p.predicted_tokens) return p.start + p.predicted_tokens;
    if (next < p.start + p.predicted_tokens + grace && next < p.start + p.limit_tokens) return next + 1;
    if (p.second_tokens > p.predicted_tokens + grace && p.second_tokens < p.limit_tokens) {
      if (next < p.start + p.second_tokens) return p.start + p.second_tokens;
      if (next < p.start + p.second_tokens + grace) return next + 1;
    }
    return std::max(p.start + p.limit_tokens, next + 1);
  }
  std::vector<std::pair<std::int32_t, std::int64_t>> vectors() const {
    std::int64_t last = next;
    for (const auto& [id, p] : requests) last = std::max(last, end(p));
    std::vector<std::pair<std::int32_t, std::int64_t>> all;
    for (std::int64_t j = next; j < last; ++j) {
      std::int32_t batch = 0;
      std::int64_t blocks = 0;
      for (const auto& [id, p] : requests) {
        if (j < p.start || j >= end(p)) continue;
        ++batch;
        const std::int64_t tokens = j - p.start + p.prompt_tokens;
        blocks += tokens / block_size + (tokens % block_size != 0 ? 1 : 0);
      }
      all.emplace_back(batch, blocks);
    }
    return all;
  }
  std::int64_t tokens_at(std::int64_t j) const {
    std::int64_t tokens = 0;
    for (const auto& [id, p] : requests) {
      if (j < end(p)) tokens += j - p.start + p.prompt_tokens;
    }
    return tokens;
  }
};

void same(const Scoreboard& board, const BruteForce& truth) {
  const auto expected = truth.vectors();
  std::int64_t peak = 0;
  for (const auto& [batch, blocks] : expected) peak = std::max(peak, blocks);
  RC_ASSERT(board.peak_blocks() == peak);
  // The stretches tile the future, with the batch and the KV tokens of each of their iterations.
  std::int64_t from = truth.next;
  board.walk([&](const Stretch& s, std::size_t first, std::size_t last) {
    RC_ASSERT(s.from == from);
    RC_ASSERT(s.until > s.from);
    RC_ASSERT(last > first);
    std::int64_t sum = 0;
    for (std::int64_t j = s.from; j < s.until; ++j) {
      RC_ASSERT(s.requests == expected[static_cast<std::size_t>(j - truth.next)].first);
      RC_ASSERT(s.kv_tokens_at_from + (j - s.from) * s.requests == truth.tokens_at(j));
      sum += truth.tokens_at(j);
    }
    RC_ASSERT(s.mean_kv_tokens() == sum / (s.until - s.from));
    from = s.until;
    return true;
  });
  RC_ASSERT(from == truth.next + static_cast<std::int64_t>(expected.size()));
}

RC_GTEST_PROP(ScoreboardProperty, EqualsOneEntryPerIteration, ()) {
  const auto block_size = *rc::gen::element<std::int32_t>(1, 3, 16, 64);
  const auto grace = *rc::gen::inRange(0, 4);
  Scoreboard board(block_size, grace);
  BruteForce truth{block_size, grace, {}, 0};
  const auto draw = [&](std::int64_t id) {
    const auto limit = *rc::gen::inRange(1, 60);
    Projected drawn = request(id, truth.next - *rc::gen::inRange<std::int64_t>(0, 3), *rc::gen::inRange(3, 200),
                              *rc::gen::inRange(1, limit + 1), limit);
    drawn.second_tokens = *rc::gen::inRange(0, 60);
    return drawn;
  };
  const int operations = *rc::gen::inRange(1, 40);
  for (int i = 0; i < operations; ++i) {
    const auto id = *rc::gen::inRange<std::int64_t>(0, 20);
    const bool here = truth.requests.contains(id);
    switch (*rc::gen::inRange(0, 5)) {
      case 0:
      case 1:
        if (!here) {
          const auto added = draw(id);
          board.add(added);
          truth.requests.emplace(id, added);
        }
        break;
      case 2: {
        if (here) break;
        const auto tried = draw(id);
        board.add_virtually(tried);
        truth.requests.emplace(id, tried);
        same(board, truth);
        board.roll_back();
        truth.requests.erase(id);
        break;
      }
      case 3:
        RC_ASSERT(board.remove(RequestId{id}) == here);
        truth.requests.erase(id);
        break;
      default:
        truth.next += *rc::gen::inRange<std::int64_t>(0, 12);
        board.advance(truth.next);
    }
    if (here && *rc::gen::inRange(0, 8) == 0 && truth.requests.contains(id)) {
      const auto start = truth.next - *rc::gen::inRange<std::int64_t>(0, 3);
      board.restart(RequestId{id}, start);
      truth.requests.at(id).start = start;
    }
    same(board, truth);
  }
}

std::map<RequestId, std::int64_t> ends_of(const Scoreboard& board) {
  std::map<RequestId, std::int64_t> ends;
  for (std::size_t i = 0; i < board.size(); ++i) ends.emplace(board.requests()[i].id, board.ends()[i]);
  return ends;
}

/// A driver that skips iterations and one that looks at each see the same board.
RC_GTEST_PROP(ScoreboardProperty, LookingMoreOftenChangesNothing, ()) {
  const auto grace = *rc::gen::inRange(0, 4);
  Scoreboard often(16, grace);
  Scoreboard seldom(16, grace);
  const auto lengths = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 40)));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    auto p = request(static_cast<std::int64_t>(i), 0, 20 + static_cast<int>(i), lengths[i], 50);
    p.second_tokens = *rc::gen::inRange(0, 60);
    often.add(p);
    seldom.add(p);
  }
  const auto target = *rc::gen::inRange<std::int64_t>(1, 80);
  for (std::int64_t next = 1; next <= target; ++next) often.advance(next);
  seldom.advance(target);
  RC_ASSERT(ends_of(often) == ends_of(seldom));
  RC_ASSERT(often.peak_blocks() == seldom.peak_blocks());
}

}  // namespace
}  // namespace wattle::policy
