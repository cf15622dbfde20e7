#include "control/next_step.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

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

TEST(NextStep, TheFirstOfAnIdleEngineIsWhatItWasSent) {
  const auto prefill = first_step(ended(0, 0), Role::Prefill, work(1, 1, 800, Instant(30)), Instant(60));
  EXPECT_EQ(prefill.shape.prefill_tokens, 800);
  EXPECT_EQ(prefill.oldest_scheduled_arrival, Instant(30));
  const auto decode = first_step(ended(0, 0), Role::Decode, work(2), Instant(60));
  EXPECT_EQ(decode.shape.decode_requests, 2);
  EXPECT_EQ(decode.shape.decode_kv_tokens, 200);
}

TEST(WorkBook, ARequestIsWhereItsLegIs) {
  WorkBook book;
  Request r;
  r.id = RequestId(1);
  r.arrival = Instant(9);
  r.prompt_tokens = 50;
  book.start(r, InstanceId(0), true);
  EXPECT_EQ(book.of(InstanceId(0)), (InstanceWork{1, 50, 1, 50, Instant(9)}));
  EXPECT_EQ(book.take_changed(), std::vector<InstanceId>{InstanceId(0)});
  book.hand_over(r, InstanceId(2));
  EXPECT_EQ(book.of(InstanceId(0)).prompts, 1) << "both legs at once: its prompt is still computed there";
  book.prompt_done(r.id);
  EXPECT_EQ(book.of(InstanceId(0)), InstanceWork{});
  EXPECT_EQ(book.of(InstanceId(2)), (InstanceWork{1, 50, 0, 0, Instant::never()}));
  book.leave(r.id);
  book.leave(r.id);
  EXPECT_EQ(book.of(InstanceId(2)), InstanceWork{});
  r.id = RequestId(2);
  book.start(r, InstanceId(1), false);
  book.prompt_done(r.id);
  EXPECT_EQ(book.of(InstanceId(1)), (InstanceWork{1, 50, 0, 0, Instant::never()}));
}

/// The sums that a book keeps are those of counting all its requests again.
RC_GTEST_PROP(WorkBook, ItsSumsAreThoseOfItsRequests, ()) {
  struct Leg {
    InstanceId at = kNoInstance;
    bool prompt = false;
  };
  struct Known {
    Request request;
    bool moves = false;
    Leg first;
    Leg second;
  };
  std::map<std::int64_t, Known> known;
  WorkBook book;
  for (int step = 0; step < 120; ++step) {
    const RequestId id(*rc::gen::inRange<std::int64_t>(0, 12));
    const InstanceId there(*rc::gen::inRange(0, 3));
    switch (*rc::gen::inRange(0, 6)) {
      case 0: {
        Request r;
        r.id = id;
        r.arrival = Instant(*rc::gen::inRange<std::int64_t>(0, 20));  // several at once, and not in order
        r.prompt_tokens = *rc::gen::inRange(1, 9);
        const bool moves = *rc::gen::arbitrary<bool>();
        book.start(r, there, moves);
        known[id.value()] = {r, moves, {there, true}, {}};
        break;
      }
      case 1:
        if (const auto k = known.find(id.value());
            k != known.end() && k->second.moves && k->second.second.at == kNoInstance) {
          if (k->second.first.at == there) break;
          book.hand_over(k->second.request, there);
          k->second.second = {there, false};
        }
        break;
      case 2:
      case 3:
        book.prompt_done(id);
        if (const auto k = known.find(id.value()); k != known.end()) {
          k->second.first.prompt = false;
          if (k->second.moves) k->second.first.at = kNoInstance;
        }
        break;
      case 4:
        book.leave(id);
        known.erase(id.value());
        break;
      default:
        if (*rc::gen::inRange(0, 8) > 0) break;
        book.forget(there);
        for (auto& [_, k] : known) {
          if (k.first.at == there) k.first.at = kNoInstance;
          if (k.second.at == there) k.second.at = kNoInstance;
        }
    }
    for (int i = 0; i < 3; ++i) {
      InstanceWork sum;
      for (const auto& [_, k] : known) {
        for (const Leg& leg : {k.first, k.second}) {
          if (leg.at != InstanceId(i)) continue;
          ++sum.requests;
          sum.context_tokens += k.request.prompt_tokens;
          if (!leg.prompt) continue;
          ++sum.prompts;
          sum.prompt_tokens += k.request.prompt_tokens;
          sum.oldest = std::min(sum.oldest, k.request.arrival);
        }
      }
      RC_ASSERT(book.of(InstanceId(i)) == sum);
    }
  }
}

}  // namespace
}  // namespace wattle::control
