// The prefix cache of simulated engines against a simple count over the trace, and the time it saves.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/random_case_test.h"
#include "workload/trace.h"

namespace wattle::sim {
namespace {

struct Turn {
  int prompt_tokens;
  std::vector<int> ids;
};

/// Conversations whose prompts grow from turn to turn, behind one of three system prompts, as in Mooncake's trace: the
/// last id is of an incomplete block, which the next turn does not share.
std::vector<Turn> conversations(std::uint64_t seed) {
  RandomStream random(seed, "conversations");
  struct Going {
    int tokens;
    std::vector<int> ids;  // of full blocks
  };
  std::vector<Going> going;
  std::vector<Turn> turns;
  int next = 100;
  while (turns.size() < 150) {
    if (going.size() < 4 || random.below(3) == 0) {
      const int system = static_cast<int>(random.below(3));
      going.push_back({512 + static_cast<int>(random.below(2000)), {system}});
    } else {
      going[random.below(going.size())].tokens += 1 + static_cast<int>(random.below(1500));
      std::swap(going[random.below(going.size())], going.back());
    }
    Going& now = going.back();
    if (now.tokens > 7000) {
      going.pop_back();
      continue;
    }
    while (static_cast<int>(now.ids.size()) < now.tokens / 512) now.ids.push_back(next++);
    turns.push_back({now.tokens, now.ids});
    if (now.tokens % 512 != 0) turns.back().ids.push_back(next++);
    if (random.below(10) == 0) turns.push_back(turns.back());  // an exact repetition
  }
  return turns;
}

/// Prompt tokens with cached KV if nothing is ever evicted: the longest prefix of earlier prompts, in whole blocks of
/// 16, at most all but the last token.
std::vector<int> cached_at_most(const std::vector<Turn>& turns) {
  std::set<std::vector<int>> asked;
  std::vector<int> cached;
  for (const Turn& turn : turns) {
    int tokens = 0;
    std::vector<int> prefix;
    bool known = true;
    for (std::size_t i = 0; i < turn.ids.size(); ++i) {
      prefix.push_back(turn.ids[i]);
      known = known && asked.contains(prefix);
      if (known) tokens = std::min(turn.prompt_tokens, static_cast<int>(i + 1) * 512);
      asked.insert(prefix);
    }
    cached.push_back(std::min(tokens, turn.prompt_tokens - 1) / 16 * 16);
  }
  return cached;
}

std::vector<workload::TraceRow> as_mooncake(const std::vector<Turn>& turns, int gap_ms) {
  std::string text;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    text += "{\"timestamp\": " + std::to_string(static_cast<int>(i) * gap_ms) +
            ", \"input_length\": " + std::to_string(turns[i].prompt_tokens) + ", \"output_length\": 3, \"hash_ids\": [";
    for (const int id : turns[i].ids) text += (id == turns[i].ids.front() ? "" : ", ") + std::to_string(id);
    text += "]}\n";
  }
  auto trace = workload::parse_trace(workload::TraceFormat::Mooncake, text, "t");
  EXPECT_TRUE(trace.has_value()) << trace.error().message();
  return trace ? std::move(trace->rows) : std::vector<workload::TraceRow>();
}

Case of_rows(std::vector<workload::TraceRow> rows) {
  Case c;
  c.rows = std::move(rows);
  c.memory_bytes = 80e9;
  return c;
}

TEST(PrefixCaching, HitsWhatATraceOfConversationsHolds) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto turns = conversations(seed);
    const auto cached = cached_at_most(turns);
    const Played played = play(of_rows(as_mooncake(turns, 20'000)), true);  // one after the other, room for all
    std::int64_t all = 0;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const Outcome& o = played.outcomes.at(static_cast<std::int64_t>(i));
      EXPECT_EQ(o.request.prompt_tokens, turns[i].prompt_tokens);
      EXPECT_EQ(o.cached_prompt_tokens, cached[i]) << "turn " << i;
      all += cached[i];
    }
    EXPECT_EQ(played.result.summary.tokens.cached_prompt, all);
    EXPECT_GT(played.result.summary.tokens.cached_share(), 0.3);
    EXPECT_LT(played.result.summary.tokens.cached_share(), 0.9);
  }
}

TEST(PrefixCaching, ASmallCacheHitsLess) {
  const auto turns = conversations(5);
  Case c = of_rows(as_mooncake(turns, 20'000));
  const double most = play(c, true).result.summary.tokens.cached_share();
  c.memory_bytes = 20.8e9;  // some thousands of tokens: less than the conversations that go on
  const double less = play(c, true).result.summary.tokens.cached_share();
  EXPECT_LT(less, 0.9 * most);
  EXPECT_GT(less, 0.0);
}

TEST(PrefixCaching, WhatIsCachedCostsNeitherEnergyNorTime) {
  Case c = of_rows(as_mooncake(conversations(6), 400));
  const Played cached = play(c, true);
  c.engine.prefix_caching = false;
  const Played computed = play(c, true);
  const auto& with = cached.result.summary;
  const auto& without = computed.result.summary;
  ASSERT_GT(with.tokens.cached_share(), 0.3);
  EXPECT_EQ(without.tokens.cached_prompt, 0);
  EXPECT_EQ(with.tokens.output, without.tokens.output);
  // A step's time is mostly, not all, in its prompt tokens.
  EXPECT_LT(with.energy.prefill.value(), (1.0 - 0.7 * with.tokens.cached_share()) * without.energy.prefill.value());
  EXPECT_GT(with.energy.prefill.value(), (1.0 - 1.1 * with.tokens.cached_share()) * without.energy.prefill.value());
  EXPECT_LT(with.energy.total.value(), without.energy.total.value());
  EXPECT_LT(with.ttft.mean_ms, without.ttft.mean_ms);
}

TEST(PrefixCaching, ADecodeInstanceReceivesWhatItLacks) {
  Case c = of_rows(as_mooncake(conversations(7), 2'000));
  c.colocated = 0;
  c.prefill = c.decode = 1;
  const auto first_tokens = [&](double bandwidth, bool cached) {
    c.link.bandwidth_bytes_per_s = bandwidth;
    c.engine.prefix_caching = cached;
    return play(c, true);
  };
  const auto sum_s = [](const Played& played) {
    Span sum;
    for (const auto& [id, o] : played.outcomes) sum += o.first_token - o.request.arrival;
    return sum.seconds();
  };
  // A slow link adds more than the time for the bytes, because transfers queue.
  const Played cached = first_tokens(1e9, true);
  const double share = cached.result.summary.tokens.cached_share();
  ASSERT_GT(share, 0.3);
  const double with = sum_s(cached) - sum_s(first_tokens(0.0, true));
  const double without = sum_s(first_tokens(1e9, false)) - sum_s(first_tokens(0.0, false));
  EXPECT_LT(with, (1.0 - 0.7 * share) * without);
}

TEST(PrefixCaching, RequestsOfWhichNothingIsKnownAreServedAsWithoutIt) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Case c = draw(seed);
    for (auto& row : c.rows) row.content = nullptr;
    const Played with = play(c, true);
    c.engine.prefix_caching = false;
    expect_equal(with, play(c, true));
  }
}

}  // namespace
}  // namespace wattle::sim
