#include "control/next_step.h"

#include <gtest/gtest.h>

namespace wattle::control {
namespace {

StepReport ended(std::int32_t decodes, std::int64_t kv, std::int32_t prompts = 0, std::int64_t tokens = 0) {
  StepReport r;
  r.moment = StepMoment::Ended;
  r.sequence = 7;
  r.start = Instant(1'000'000);
  r.shape.decode_requests = decodes;
  r.shape.decode_kv_tokens = kv;
  r.shape.prefill_requests = prompts;
  r.shape.prefill_tokens = tokens;
  return r;
}

InstanceSpec of(Role role, std::int64_t kv_capacity_tokens = 0) {
  InstanceSpec spec;
  spec.role = role;
  spec.kv_capacity_tokens = kv_capacity_tokens;
  return spec;
}

InstanceWork work(std::int32_t requests, std::int32_t prompts = 0, std::int64_t tokens = 0,
                  Instant oldest = Instant(5)) {
  return {requests, 100 * requests, prompts, tokens, prompts > 0 ? oldest : Instant::never()};
}

TEST(NextStep, OfAStepThatStartsIsItself) {
  StepReport starts = ended(3, 300);
  starts.moment = StepMoment::Starts;
  starts.waiting_requests = 2;
  EXPECT_EQ(next_step(starts, of(Role::Colocated), work(9)).shape, starts.shape);
  EXPECT_EQ(next_step(starts, of(Role::Colocated), work(9)).waiting_requests, 2);
}

TEST(NextStep, DecodesGoOnAndGrow) {
  const auto next = next_step(ended(4, 1'000), of(Role::Decode), std::nullopt);
  EXPECT_EQ(next.shape.decode_requests, 4);
  EXPECT_EQ(next.shape.decode_kv_tokens, 1'004);
  EXPECT_EQ(next.shape.prefill_tokens, 0);
  EXPECT_EQ(next.start, Instant(1'000'000));
}

TEST(NextStep, WhoLeftWithItIsNotInTheNext) {
  EXPECT_EQ(next_step(ended(4, 1'000), of(Role::Decode), work(1)).shape.decode_requests, 1);
  EXPECT_EQ(next_step(ended(4, 1'000), of(Role::Decode), work(1)).shape.decode_kv_tokens, 251);
  EXPECT_TRUE(next_step(ended(4, 1'000), of(Role::Colocated), work(0)).shape.idle());
  EXPECT_EQ(next_step(ended(4, 1'000), of(Role::Decode), work(6)).shape.decode_requests, 4) << "two are on their way";
}

TEST(NextStep, PromptsThatWaitedAreComputedAndTheirAgeIsTheGateways) {
  StepReport r = ended(0, 0, 1, 500);
  r.waiting_requests = 2;
  r.waiting_prompt_tokens = 900;
  const auto next = next_step(r, of(Role::Prefill), work(2, 2, 900, Instant(40)));
  EXPECT_EQ(next.shape.prefill_requests, 2);
  EXPECT_EQ(next.shape.prefill_tokens, 900);
  EXPECT_EQ(next.shape.decode_requests, 0) << "what is computed moves on";
  EXPECT_EQ(next.waiting_requests, 0);
  EXPECT_EQ(next.oldest_scheduled_arrival, Instant(40));
  EXPECT_EQ(next_step(r, of(Role::Prefill), std::nullopt).oldest_scheduled_arrival, r.start) << "not known";
}

TEST(NextStep, WhatTheCacheHasNoRoomForGoesOnWaiting) {
  StepReport r = ended(4, 7'000);
  r.kv_tokens = 7'000;
  r.waiting_requests = 3;
  r.waiting_prompt_tokens = 1'800;
  const auto next = next_step(r, of(Role::Colocated, 8'300), work(7, 3, 1'800, Instant(40)));
  EXPECT_EQ(next.sequence, 8);
  EXPECT_EQ(next.kv_tokens, 7'004);
  EXPECT_EQ(next.shape.decode_requests, 4);
  EXPECT_EQ(next.shape.prefill_requests, 2);
  EXPECT_EQ(next.shape.prefill_tokens, 1'200);
  EXPECT_EQ(next.waiting_requests, 1);
  EXPECT_EQ(next.waiting_prompt_tokens, 600);
  r.kv_tokens = 8'299;
  EXPECT_EQ(next_step(r, of(Role::Colocated, 8'300), work(7, 3, 1'800)).shape.prefill_requests, 0);
  EXPECT_EQ(next_step(r, of(Role::Decode, 8'300), work(7)).shape.decode_requests, 4);
  EXPECT_EQ(next_step(r, of(Role::Decode), work(7)).shape.decode_requests, 7) << "nobody knows of a limit";
  r.shape = {};
  EXPECT_EQ(next_step(r, of(Role::Colocated, 8'300), work(3, 3, 1'800)).shape.prefill_requests, 1) << "alone it runs";
}

TEST(NextStep, ComputedPromptsDecodeWhereBothHappen) {
  const auto next = next_step(ended(3, 300, 2, 700), of(Role::Colocated), work(5));
  EXPECT_EQ(next.shape.decode_requests, 5);
  EXPECT_EQ(next.shape.decode_kv_tokens, 1'003);
  EXPECT_EQ(next.shape.prefill_requests, 0);
}

TEST(NextStep, ASplitPromptGoesOn) {
  const auto next = next_step(ended(3, 300, 1, 2'000), of(Role::Colocated), work(4, 1, 9'000));
  EXPECT_EQ(next.shape.prefill_requests, 1);
  EXPECT_EQ(next.shape.prefill_tokens, 2'000);
  EXPECT_EQ(next.shape.decode_requests, 3);
}

/// 1 ms per prompt token at any clock.
class TokenAMillisecond final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz) const override {
    return Span::ms(shape.prefill_tokens);
  }
};

TEST(SeenByStreams, WhatHasBeenComputedIsNoPartOfTheStep) {
  const TokenAMillisecond latency;
  InstanceSpec spec = of(Role::Colocated);
  spec.beliefs.latency = &latency;
  InstanceWork there = work(5, 3, 450, Instant(0));
  there.computing = 2;
  there.computing_tokens = 400;
  there.computing_since = Instant() + Span::ms(50);
  const auto seen = [&](std::int64_t ms) {
    return seen_by_streams(there, spec, MegaHertz(1000), Instant() + Span::ms(ms));
  };
  EXPECT_EQ(seen(50).shape.prefill_tokens, 400);
  EXPECT_EQ(seen(50).shape.decode_requests, 2);
  EXPECT_EQ(seen(50).waiting_requests, 1);
  EXPECT_EQ(seen(50).waiting_prompt_tokens, 50);
  EXPECT_EQ(seen(150).shape.prefill_tokens, 300);
  EXPECT_EQ(seen(150).shape.prefill_requests, 2);
  EXPECT_EQ(seen(150).waiting_prompt_tokens, 50);
  EXPECT_EQ(seen(460).shape.prefill_tokens, 40) << "it has not ended";
  EXPECT_EQ(seen(900).shape.prefill_tokens, 0) << "it should have, long ago";
  EXPECT_EQ(seen(900).waiting_prompt_tokens, 450);
  const InstanceSpec unknown = of(Role::Colocated);
  EXPECT_EQ(seen_by_streams(there, unknown, MegaHertz(1000), Instant() + Span::s(9)).shape.prefill_tokens, 400);
  EXPECT_EQ(shown_by_streams(there, unknown, MegaHertz(1000), Instant() + Span::s(9)).waiting_prompt_tokens, 450)
      << "they can be taken elsewhere";
  EXPECT_EQ(seen_by_streams(there.begun(), spec, MegaHertz(1000), Instant() + Span::ms(50)).waiting_requests, 0);
}

TEST(NextStep, TheFirstOfAnIdleEngineIsWhatItWasSent) {
  StepReport last = ended(0, 0);
  last.kv_tokens = 640;  // of the last request: the report of its last step came before it had left
  const auto prefill = first_step(last, of(Role::Prefill), work(1, 1, 800, Instant(30)), Instant(60));
  EXPECT_EQ(prefill.kv_tokens, 0);
  EXPECT_EQ(prefill.shape.prefill_tokens, 800);
  EXPECT_EQ(prefill.oldest_scheduled_arrival, Instant(30));
  const auto decode = first_step(ended(0, 0), of(Role::Decode), work(2), Instant(60));
  EXPECT_EQ(decode.shape.decode_requests, 2);
  EXPECT_EQ(decode.shape.decode_kv_tokens, 200);
}

TEST(NextStep, NoStepComputesMoreThanTheCacheHolds) {
  const auto huge = work(1, 1, 1'000'000'000, Instant(30));
  EXPECT_EQ(first_step(ended(0, 0), of(Role::Prefill, 8'000), huge, Instant(60)).shape.prefill_tokens, 8'000);
  EXPECT_EQ(first_step(ended(0, 0), of(Role::Prefill, 8'000), huge, Instant(60)).shape.prefill_context_tokens,
            32'000'000);
  StepReport waits = ended(0, 0);
  waits.waiting_requests = 1;
  waits.waiting_prompt_tokens = 1'000'000'000;
  EXPECT_EQ(next_step(waits, of(Role::Prefill, 8'000), huge).shape.prefill_tokens, 8'000);
}

TEST(NextStep, NoStepComputesMoreThanTheEngineHasRoomFor) {
  StepReport r = ended(100, 10'000);
  r.waiting_requests = 4;
  r.waiting_prompt_tokens = 2'000;
  InstanceSpec spec = of(Role::Colocated);
  spec.max_step_tokens = 800;  // 700 beside the decodes
  const auto next = next_step(r, spec, work(104, 4, 2'000));
  EXPECT_EQ(next.shape.decode_requests, 100);
  EXPECT_EQ(next.shape.prefill_requests, 2);
  EXPECT_EQ(next.shape.prefill_tokens, 700);
  EXPECT_EQ(next.unfinished_prompt_tokens, 300) << "of the second";
  EXPECT_EQ(next.waiting_requests, 2);
  EXPECT_EQ(next.waiting_prompt_tokens, 1'000);
  spec.max_requests = 101;
  EXPECT_EQ(next_step(r, spec, work(104, 4, 2'000)).shape.prefill_requests, 1);
  EXPECT_EQ(next_step(r, spec, work(104, 4, 2'000)).waiting_prompt_tokens, 1'500);
  spec.max_requests = 100;
  EXPECT_EQ(next_step(r, spec, work(104, 4, 2'000)).waiting_requests, 4);
  spec.role = Role::Decode;
  EXPECT_EQ(next_step(r, spec, work(104)).shape.decode_requests, 100);
}

TEST(NextStep, PromptsThatAreComputedAloneMakeDecodesWait) {
  StepReport r = ended(100, 10'000);
  r.kv_tokens = 10'000;
  r.waiting_requests = 1;
  r.waiting_prompt_tokens = 500;
  InstanceSpec spec = of(Role::Colocated);
  spec.decode_tokens = 0;
  const auto prompts = next_step(r, spec, work(101, 1, 500));
  EXPECT_EQ(prompts.shape.decode_requests, 0);
  EXPECT_EQ(prompts.shape.prefill_tokens, 500);
  StepReport then = ended(0, 0, 1, 500);
  then.kv_tokens = 10'600;
  const auto decodes = next_step(then, spec, work(101));
  EXPECT_EQ(decodes.shape.decode_requests, 101);
  EXPECT_EQ(decodes.shape.decode_kv_tokens, 11'100);
  EXPECT_EQ(decodes.shape.prefill_tokens, 0);
}

TEST(SeenByStreams, PromptsAreComputedInStepsThatTheEngineHasRoomFor) {
  const TokenAMillisecond latency;
  InstanceSpec spec = of(Role::Colocated);
  spec.beliefs.latency = &latency;
  spec.max_step_tokens = 102;  // 100 beside the decodes
  InstanceWork there = work(4, 2, 400, Instant(0));
  there.computing = 2;
  there.computing_tokens = 400;
  const auto seen = [&](std::int64_t ms) {
    return seen_by_streams(there, spec, MegaHertz(1000), Instant() + Span::ms(ms));
  };
  EXPECT_EQ(seen(0).shape.prefill_tokens, 100);
  EXPECT_EQ(seen(0).unfinished_prompt_tokens, 100);
  EXPECT_EQ(seen(0).waiting_prompt_tokens, 200);
  EXPECT_EQ(seen(340).shape.prefill_tokens, 60);
  EXPECT_EQ(seen(340).waiting_requests, 0);
}

}  // namespace
}  // namespace wattle::control
