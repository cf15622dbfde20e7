#include "engine/replica.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/replica_driver_test.h"

namespace wattle::engine {
namespace {

StepModel model_with(const EngineOptions& options, double memory_bytes = 80e9) {
  GpuSpec gpu;
  gpu.name = "h100";
  gpu.clock_max = MegaHertz(1980);
  gpu.tdp = Watts(700.0);
  gpu.memory_bytes = memory_bytes;
  gpu.memory_bandwidth_bytes_per_s = 3.35e12;
  gpu.bf16_flops_per_s = 989e12;
  gpu.nvlink_bytes_per_s = 450e9;
  gpu.sm_count = 132;
  auto made = StepModel::make(gpu, LlmSpec{}, 1, HardwareProfile{}, options);
  if (!made) throw std::runtime_error(made.error().message());
  return std::move(*made);
}

std::vector<std::int64_t> prompt_tokens_of(const std::vector<StepReport>& steps) {
  std::vector<std::int64_t> tokens;
  for (const StepReport& step : steps) {
    if (step.shape.prefill_tokens > 0) tokens.push_back(step.shape.prefill_tokens);
  }
  return tokens;
}

TEST(Replica, a_clock_that_the_gpu_does_not_have_breaks_an_invariant) {
  const StepModel model = model_with({});
  for (const MegaHertz clock : {MegaHertz(1980), MegaHertz(1995), MegaHertz(1003), MegaHertz(195)}) {
    ReplicaOptions options;
    options.initial_clock = clock;
    const Driver driver(model, options);
    if (clock == MegaHertz(1980)) {
      driver.replica().check_invariants();
    } else {
      EXPECT_DEATH(driver.replica().check_invariants(), "INV-11") << clock.value();
    }
  }
}

TEST(Replica, prompts_are_split_at_the_budget_or_kept_whole) {
  EngineOptions options;
  options.max_num_batched_tokens = 1000;
  const StepModel model = model_with(options);
  Driver split(model, options);
  split.run(together(3, 600, 1));
  EXPECT_EQ(prompt_tokens_of(split.steps), (std::vector<std::int64_t>{1000, 800}));
  options.whole_prompts = true;
  Driver whole(model, options);
  whole.run(together(3, 600, 1));
  EXPECT_EQ(prompt_tokens_of(whole.steps), (std::vector<std::int64_t>{600, 600, 600}));
  Driver longer(model, options);
  longer.run(together(2, 1500, 1));
  EXPECT_EQ(prompt_tokens_of(longer.steps), (std::vector<std::int64_t>{1500, 1500})) << "alone, not never";
}

TEST(Replica, whole_prompts_share_steps_with_decodes_unless_prompts_go_first) {
  for (const bool mixed : {true, false}) {
    EngineOptions options;
    options.whole_prompts = true;
    options.chunked_prefill = mixed;
    const StepModel model = model_with(options);
    Driver driver(model, options);
    driver.run({request(0, Instant(), 100, 500), request(1, Instant() + Span::ms(500), 100, 10)});
    const auto later = std::ranges::find_if(
        driver.steps, [](const StepReport& s) { return s.start > Instant() && s.shape.prefill_tokens > 0; });
    ASSERT_NE(later, driver.steps.end());
    EXPECT_EQ(later->shape.decode_requests, mixed ? 1 : 0);
  }
}

TEST(Replica, a_reserved_answer_is_never_preempted_and_fewer_run_at_once) {
  EngineOptions options;
  const StepModel model = model_with(options, 24e9);  // some 27,000 tokens of KV
  Driver grown(model, options);
  grown.run(together(60, 100, 1000));
  EXPECT_GT(grown.replica().preemptions(), 0);
  options.reserve_output = true;
  Driver reserved(model, options);
  reserved.run(together(60, 100, 1000));
  EXPECT_EQ(reserved.replica().preemptions(), 0);
  EXPECT_LT(reserved.largest_batch(), grown.largest_batch());
  EXPECT_EQ(reserved.largest_batch(), reserved.replica().kv_capacity_tokens() / 1104) << "69 blocks each, all of them";
}

TEST(Replica, who_arrives_while_the_next_step_is_put_together_waits_for_the_one_after) {
  EngineOptions options;
  options.async_scheduling = true;
  const StepModel model = model_with(options);
  // Request 0 decodes alone; 1 and 2 arrive during a step, 3 and 4 at an idle engine.
  const std::vector<Arrival> arrivals{
      request(0, Instant(), 100, 200), request(1, Instant() + Span::us(300'000), 100, 2),
      request(2, Instant() + Span::us(300'001), 100, 2), request(3, Instant() + Span::s(60), 100, 2),
      request(4, Instant() + Span::s(60), 100, 2)};
  Driver driver(model, options);
  driver.run(arrivals);
  std::size_t during = 0;
  while (driver.steps[during + 1].start < arrivals[1].at) ++during;
  EXPECT_EQ(driver.steps[during + 1].shape.prefill_requests, 0);
  EXPECT_EQ(driver.steps[during + 1].waiting_requests, 2);
  EXPECT_EQ(driver.steps[during + 2].shape.prefill_requests, 2);
  const auto idle = std::ranges::find(driver.steps, arrivals[3].at, &StepReport::start);
  ASSERT_NE(idle, driver.steps.end());
  EXPECT_EQ(idle->shape.prefill_requests, 2);
}

TEST(Replica, an_engine_that_looks_for_requests_every_tenth_step_lets_them_wait_until_then) {
  EngineOptions options;
  options.async_scheduling = true;
  options.receive_interval = 10;
  const StepModel model = model_with(options);
  const std::vector<Arrival> arrivals{
      request(0, Instant(), 100, 200), request(1, Instant() + Span::us(300'000), 100, 2),
      request(2, Instant() + Span::us(300'001), 100, 2), request(3, Instant() + Span::s(60), 100, 2)};
  Driver each(model, options);
  Driver ahead(model, options, true);
  for (Driver* driver : {&each, &ahead}) driver->run(arrivals);
  std::vector<std::size_t> prompts;
  for (std::size_t i = 0; i < each.steps.size(); ++i) {
    if (each.steps[i].shape.prefill_requests > 0) prompts.push_back(i);
  }
  ASSERT_EQ(prompts.size(), 3U);
  EXPECT_EQ((prompts[1] - prompts[0] - 1) % 10, 0U) << "so many steps after the last prompts";
  EXPECT_GT(each.steps[prompts[1]].start, arrivals[2].at);
  EXPECT_LT(each.steps[prompts[1] - 10].start, arrivals[2].at);
  EXPECT_EQ(each.steps[prompts[1]].shape.prefill_requests, 2);
  EXPECT_EQ(each.steps[prompts[2]].start, arrivals[3].at) << "nothing runs";
  for (Tag tag = 0; tag < 4; ++tag) EXPECT_EQ(each.finished(tag), ahead.finished(tag)) << tag;
}

TEST(Replica, prompts_wait_for_more_of_them_while_others_decode) {
  EngineOptions options;
  options.batch_wait_steps = 20;
  options.batch_wait_share = 0.5;
  const StepModel model = model_with(options);
  const Instant early = Instant() + Span::us(300'000);
  const std::int32_t half = options.max_num_batched_tokens / 2;
  std::vector<Arrival> arrivals{request(0, Instant(), 100, 300), request(1, early, 100, 2),
                                request(2, early + Span::us(50'000), 100, 2)};
  for (const bool fast_forward : {false, true}) {
    Driver driver(model, options, fast_forward);
    driver.run(arrivals);
    const auto joint = std::ranges::find(driver.steps, 2, [](const StepReport& s) { return s.shape.prefill_requests; });
    ASSERT_NE(joint, driver.steps.end());
    const auto waiting =
        std::ranges::count_if(driver.steps, [](const StepReport& s) { return s.waiting_requests > 0; });
    EXPECT_EQ(waiting, 20) << "steps that left them where they were";
    EXPECT_EQ(driver.steps.front().shape.prefill_requests, 1) << "nothing decodes";
  }
  arrivals[2] = request(2, early + Span::us(50'000), half, 2);
  Driver driver(model, options);
  driver.run(arrivals);
  EXPECT_LT(driver.finished(2), early + Span::us(50'000) + Span::ms(200)) << "half a step's tokens wait no longer";
  EXPECT_LT(std::ranges::count_if(driver.steps, [](const StepReport& s) { return s.waiting_requests > 0; }), 15);
}

/// Its first `shared` blocks of 16 tokens are those of this prefix, the others its own.
Arrival begins_with(std::uint64_t prefix, std::int32_t shared, Arrival arrival) {
  std::vector<std::uint64_t> ids;
  for (std::int32_t i = 0; i < arrival.job.prompt_tokens / 16; ++i) {
    ids.push_back(i < shared ? prefix : 1'000'000 + arrival.job.tag);
  }
  arrival.job.content = chained(16, ids);
  return arrival;
}

TEST(Replica, of_a_prompt_whose_beginning_is_cached_the_rest_is_computed) {
  EngineOptions options;
  const StepModel model = model_with(options);
  // The whole of it, twice; the first 500 tokens of it, of which 31 blocks are full; another of which 20 blocks are it.
  const std::vector<Arrival> arrivals{begins_with(1, 50, request(0, Instant(), 800, 4)),
                                      begins_with(1, 50, request(1, Instant() + Span::s(10), 800, 4)),
                                      begins_with(1, 50, request(2, Instant() + Span::s(20), 500, 4)),
                                      begins_with(1, 20, request(3, Instant() + Span::s(30), 1000, 4)),
                                      request(4, Instant() + Span::s(40), 800, 4)};
  Driver driver(model, options);
  driver.run(arrivals);
  EXPECT_EQ(prompt_tokens_of(driver.steps), (std::vector<std::int64_t>{800, 16, 4, 680, 800}))
      << "the last token is computed whatever is cached, and with it its block";
  const auto partly = std::ranges::find(driver.steps, 680, [](const StepReport& s) { return s.shape.prefill_tokens; });
  EXPECT_EQ(partly->shape.prefill_context_tokens, 680 * 320 + 680 * 680 / 2) << "which attends to what was cached";
  std::vector<std::int32_t> cached;
  for (const Event& e : driver.events) {
    if (e.kind == EventKind::FirstToken) cached.push_back(e.cached_tokens);
  }
  EXPECT_EQ(cached, (std::vector<std::int32_t>{0, 784, 496, 320, 0}));
  options.prefix_caching = false;
  Driver without(model, options);
  without.run(arrivals);
  EXPECT_EQ(prompt_tokens_of(without.steps), (std::vector<std::int64_t>{800, 800, 500, 1000, 800}));
}

TEST(Replica, what_running_requests_share_is_there_once) {
  EngineOptions options;
  const StepModel model = model_with(options);
  std::vector<Arrival> arrivals;
  for (std::uint32_t i = 0; i < 10; ++i) arrivals.push_back(begins_with(1, 60, request(i, Instant(), 968, 100)));
  Driver driver(model, options);
  driver.run(arrivals);
  EXPECT_EQ(driver.steps.front().shape.prefill_tokens, 968 + 9 * 8) << "in the step that computes it, too";
  const StepReport& decoding = driver.steps[2];
  EXPECT_EQ(decoding.shape.decode_kv_tokens, 10 * 969) << "each reads all of its context";
  EXPECT_EQ(decoding.kv_tokens, 10 * 969 - 9 * 960);
  EXPECT_EQ(driver.replica().blocks_free(), driver.replica().blocks_total()) << "cached blocks of nobody are free";
  // More requests fit: none is preempted in cases where some are without sharing.
  const StepModel small = model_with(options, 24e9);
  for (const bool caching : {true, false}) {
    options.prefix_caching = caching;
    std::vector<Arrival> many;
    for (std::uint32_t i = 0; i < 60; ++i) many.push_back(begins_with(1, 40, request(i, Instant(), 648, 300)));
    Driver full(small, options);
    full.run(many);
    EXPECT_EQ(full.replica().preemptions() == 0, caching);
  }
}

TEST(Replica, a_preempted_request_finds_its_blocks_again) {
  EngineOptions options;
  const StepModel model = model_with(options, 24e9);
  std::vector<Arrival> own;  // nothing is shared
  for (std::uint32_t i = 0; i < 60; ++i) own.push_back(begins_with(0, 0, request(i, Instant(), 100, 1000)));
  Driver cached(model, options);
  cached.run(own);
  options.prefix_caching = false;
  Driver recomputed(model, options);
  recomputed.run(own);
  const auto computed = [](const Driver& driver) {
    std::int64_t tokens = 0;
    for (const std::int64_t step : prompt_tokens_of(driver.steps)) tokens += step;
    return tokens - 60 * 100;  // again
  };
  ASSERT_GT(cached.replica().preemptions(), 0);
  EXPECT_LT(computed(cached), computed(recomputed));
  for (const Event& e : cached.events) EXPECT_EQ(e.cached_tokens, 0) << "no hit of an earlier request's";
}

RC_GTEST_PROP(Replica, running_ahead_gives_the_same_events_whatever_the_options, ()) {
  EngineOptions options;
  options.chunked_prefill = *rc::gen::arbitrary<bool>();
  options.whole_prompts = *rc::gen::arbitrary<bool>();
  options.reserve_output = *rc::gen::arbitrary<bool>();
  options.async_scheduling = *rc::gen::arbitrary<bool>();
  options.max_num_batched_tokens = *rc::gen::inRange(64, 4096);
  options.max_num_seqs = *rc::gen::inRange(1, 40);
  const StepModel model = model_with(options, *rc::gen::element(20.5e9, 21.5e9, 80e9));
  const bool known = *rc::gen::arbitrary<bool>();  // what prompts consist of
  std::vector<Arrival> arrivals;
  Instant at;
  const auto requests = *rc::gen::inRange(1, 60);
  for (std::int32_t i = 0; i < requests; ++i) {
    at = at + Span::us(*rc::gen::inRange(0, 200'000));
    Arrival arrival = request(static_cast<Tag>(i), at, *rc::gen::inRange(1, 2000), *rc::gen::inRange(1, 400));
    if (known) arrival = begins_with(*rc::gen::inRange<unsigned>(0, 3), *rc::gen::inRange(0, 100), std::move(arrival));
    arrivals.push_back(std::move(arrival));
  }
  Driver steps(model, options, false);
  Driver ahead(model, options, true);
  for (const Arrival& a : arrivals) RC_PRE(steps.replica().can_ever_fit(a.job.prompt_tokens, a.job.output_tokens));
  steps.run(arrivals);
  ahead.run(arrivals);
  RC_ASSERT(steps.events.size() == 2 * arrivals.size());
  RC_ASSERT(steps.events.size() == ahead.events.size());
  for (std::size_t i = 0; i < steps.events.size(); ++i) {
    RC_ASSERT(steps.events[i].tag == ahead.events[i].tag);
    RC_ASSERT(steps.events[i].at == ahead.events[i].at);
    RC_ASSERT(steps.events[i].cached_tokens == ahead.events[i].cached_tokens);
  }
  RC_ASSERT(steps.replica().iterations() == ahead.replica().iterations());
  if (options.reserve_output) RC_ASSERT(steps.replica().preemptions() == 0);
}

/// Gaps within its objective, by request. `within`: all that were reported.
std::vector<std::int64_t> good_gaps(const StepModel& model, const EngineOptions& options, bool fast_forward,
                                    const std::vector<Arrival>& arrivals, std::int64_t* within = nullptr) {
  Driver driver(model, options, fast_forward);
  driver.run(arrivals);
  std::vector<std::int64_t> good(arrivals.size());
  for (const Event& e : driver.events) good[e.tag] += e.kind == EventKind::Finished ? e.gaps_within_itl : 0;
  if (within != nullptr) *within = driver.gaps_within;
  return good;
}

RC_GTEST_PROP(Replica, GapsAreHeldToTheirOwnRequestsObjective, ()) {
  EngineOptions options;
  options.max_num_batched_tokens = *rc::gen::inRange(64, 1024);
  options.speculative_tokens = *rc::gen::element(0, 0, 2);
  options.acceptance_rate = 0.5;
  const StepModel model = model_with(options, *rc::gen::element(20.5e9, 80e9));
  constexpr Span kLimits[] = {Span::us(6'800), Span::us(7'500), Span::ms(12), Span::max()};
  std::vector<Arrival> arrivals;
  Instant at;
  for (std::int32_t i = 0; i < 30; ++i) {
    at = at + Span::us(*rc::gen::inRange(0, 100'000));
    arrivals.push_back(request(static_cast<Tag>(i), at, *rc::gen::inRange(1, 2000), *rc::gen::inRange(1, 300)));
    RC_PRE(Driver(model, options)
               .replica()
               .can_ever_fit(arrivals.back().job.prompt_tokens, arrivals.back().job.output_tokens));
  }
  std::vector<Arrival> mixed = arrivals;
  std::vector<std::int64_t> expected(arrivals.size());
  for (const Span limit : kLimits) {
    for (Arrival& a : arrivals) a.job.itl = limit;
    const auto alone = good_gaps(model, options, true, arrivals);
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      if (kLimits[i % std::size(kLimits)] != limit) continue;
      mixed[i].job.itl = limit;
      expected[i] = alone[i];
    }
  }
  std::int64_t within = 0;
  RC_ASSERT(good_gaps(model, options, true, mixed, &within) == expected);
  RC_ASSERT(within == std::accumulate(expected.begin(), expected.end(), std::int64_t{0}));
  RC_ASSERT(good_gaps(model, options, false, mixed) == expected);
}

}  // namespace
}  // namespace wattle::engine
