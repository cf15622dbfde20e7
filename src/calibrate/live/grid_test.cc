#include "calibrate/live/grid.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "calibrate/live/rate_collector.h"
#include "calibrate/live/streams.h"

namespace wattle::calibrate {
namespace {

using predict::StepKind;

TEST(Grid, VoltanallmsIsAsThePaperHasIt) {
  const Grid grid = voltanallm_grid();
  std::vector<int> clocks;
  for (const MegaHertz c : grid.clocks) clocks.push_back(c.value());
  EXPECT_EQ(clocks, (std::vector<int>{1005, 1095, 1200, 1305, 1410}));
  std::set<int> batches, rates;
  for (const Cell& cell : grid.cells) {
    if (cell.phase == StepKind::Decode) {
      EXPECT_TRUE(batches.insert(cell.concurrency).second) << cell.concurrency;
    } else {
      rates.insert(static_cast<int>(cell.rate_per_s));
      EXPECT_EQ(cell.output_tokens, 1);
    }
  }
  EXPECT_EQ(rates, (std::set<int>{10, 20, 30, 40, 50, 60, 70, 80}));
  std::set<int> wanted;
  for (int k = 1; k <= 16; ++k) wanted.insert({8 * k, 8 * k + 1});
  for (int k = 1; k <= 8; ++k) wanted.insert({128 * k, 128 * k + 1});
  EXPECT_EQ(batches, wanted);
}

TEST(Grid, ThinnedItKeepsItsEnds) {
  Grid grid = voltanallm_grid();
  thin(grid, 3);
  ASSERT_EQ(grid.cells.size(), 6U);
  EXPECT_EQ(grid.cells[0].rate_per_s, 10);
  EXPECT_EQ(grid.cells[2].rate_per_s, 80);
  EXPECT_EQ(grid.cells[3].concurrency, 8);
  EXPECT_EQ(grid.cells[5].concurrency, 1025);
  Grid same = voltanallm_grid();
  thin(same, 0);
  EXPECT_EQ(same.cells, voltanallm_grid().cells);
}

TEST(Grid, ThrottllemsBatchesFillTheCacheInTheirLastIteration) {
  const std::vector<std::int32_t> batches{1, 8, 64, 500};
  const Grid grid = throttllem_grid(batches, 8'192);
  EXPECT_TRUE(grid.draws_clocks);
  EXPECT_TRUE(grid.clocks.empty()) << "all there are";
  ASSERT_EQ(grid.cells.size(), 3U) << "500 requests have 16 tokens each: nothing to measure";
  for (const Cell& cell : grid.cells) {
    EXPECT_EQ(cell.prompt_tokens, 1);
    const std::int64_t filled = std::int64_t{cell.concurrency} * (cell.prompt_tokens + cell.output_tokens);
    EXPECT_LE(filled, 8'192);
    EXPECT_GT(filled, 8'192 * 96 / 100) << cell.concurrency;
  }
}

TEST(RateCollector, CountsOnlyTheStepsOfItsWindow) {
  Lockstep run;
  run.requests = 4;
  run.kv_first = 100;
  // 20 steps of 10 ms, then 20 of 30 ms: the clock was lowered in between.
  Instant at = Instant() + Span::s(1);
  run.at.push_back(at);
  for (int k = 0; k < 40; ++k) run.at.push_back(at += Span::ms(k < 20 ? 10 : 30));
  const Instant change = run.at[20];
  const auto slow = steps_within(run, {MegaHertz{300}, change + Span::ms(5), change + Span::ms(400)}, 6);
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->steps, 12) << "from 30 to 390 ms";
  EXPECT_EQ(slow->step, Span::ms(30));
  EXPECT_EQ(slow->kv_tokens, 100 + 21 * 4 + 22) << "the middle of steps 21 to 32";
  EXPECT_FALSE(steps_within(run, {MegaHertz{300}, change, change + Span::ms(175)}, 6)) << "five steps";
  EXPECT_FALSE(steps_within(run, {MegaHertz{300}, run.at.back() + Span::s(1), run.at.back() + Span::s(2)}, 1));
}

TEST(Grid, AProductVisitsEveryCombination) {
  const std::vector<std::int32_t> n{1, 8}, prompts{64, 512}, outputs{32}, prefill{128};
  const Grid grid = product_grid(n, prompts, outputs, prefill, {});
  EXPECT_TRUE(grid.clocks.empty());
  ASSERT_EQ(grid.cells.size(), 5U);
  EXPECT_EQ(grid.cells[0], (Cell{StepKind::Prefill, 1, 128, 1, 0.0}));
  EXPECT_EQ(grid.cells[4], (Cell{StepKind::Decode, 8, 512, 32, 0.0}));
}

TEST(Grid, PromptsAreMeasuredBehindContextsAtLeastTwiceAsLong) {
  const std::vector<std::int32_t> prefill{128, 1024, 4096}, contexts{2048, 0, 16384};
  const Grid grid = product_grid({}, {}, {}, prefill, contexts);
  ASSERT_EQ(grid.cells.size(), 3U + 2 + 3);
  EXPECT_EQ(grid.cells[4], (Cell{StepKind::Prefill, 1, 1024, 1, 0.0, 2048}));
  EXPECT_EQ(grid.cells[7], (Cell{StepKind::Prefill, 1, 4096, 1, 0.0, 16384}));
}

TEST(StreamBody, WhatAnEngineSaysOfAFailureIsFoundInAllTheirForms) {
  EXPECT_EQ(words_of(R"({"error":{"message":"The model `nope` does not exist.","type":"NotFoundError","code":404}})"),
            "The model `nope` does not exist.")
      << "vLLM, llama.cpp";
  EXPECT_EQ(words_of(R"({"object":"error","message":"too long","code":400})"), "too long") << "SGLang, Dynamo";
  EXPECT_EQ(words_of(R"({"detail":"Not Found"})"), "Not Found");
  EXPECT_EQ(words_of(R"({"error":"loading"})"), "loading");
  EXPECT_EQ(words_of("<html>\r\n502</html>"), "<html>  502</html>");
  EXPECT_EQ(words_of(std::string(5000, 'x')).size(), 303U);
}

}  // namespace
}  // namespace wattle::calibrate
