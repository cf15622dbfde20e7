#include "control/work_book.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

namespace wattle::control::work_book_test {
namespace {

Instant at(std::int64_t ms) { return Instant() + Span::ms(ms); }

InstanceWork but_delivered(InstanceWork work) {
  work.delivered = {};
  return work;
}

Request request(std::int64_t id, std::int32_t prompt_tokens) {
  Request r;
  r.id = RequestId(id);
  r.arrival = at(0);
  r.prompt_tokens = prompt_tokens;
  return r;
}

constexpr InstanceId kHere{0};

TEST(WorkBook, WhoComesWhilePromptsAreComputedWaitsForThem) {
  WorkBook book;
  book.start(request(1, 100), kHere, false, at(0));
  book.start(request(2, 30), kHere, false, at(1));
  book.start(request(3, 50), kHere, false, at(2));
  EXPECT_EQ(book.of(kHere).prompts, 3);
  EXPECT_EQ(book.of(kHere).computing, 1);
  EXPECT_EQ(book.of(kHere).computing_tokens, 100);
  book.prompt_done(RequestId(1), at(20));
  EXPECT_EQ(book.of(kHere).computing, 2);
  EXPECT_EQ(book.of(kHere).computing_tokens, 80);
  book.leave(RequestId(2));
  EXPECT_EQ(book.of(kHere).computing_tokens, 50);
}

TEST(WorkBook, AnAnswerThatComesAsAWholeHoldsNobodyUp) {
  WorkBook book;
  book.start(request(1, 100), kHere, false, at(0));
  book.start(request(2, 30), kHere, false, at(1));
  book.start(request(3, 50), kHere, false, at(2));
  book.prompt_done(RequestId(2), at(20));  // the first prompt has been computed, too, but its tokens are not reported
  EXPECT_EQ(book.of(kHere).computing, 1);
  EXPECT_EQ(book.of(kHere).computing_tokens, 50);
  book.prompt_done(RequestId(3), at(30));
  EXPECT_EQ(book.of(kHere).prompts, 0);
  EXPECT_EQ(book.of(kHere).computing, 0);
  EXPECT_EQ(book.of(kHere).requests, 3);
  book.start(request(4, 70), kHere, false, at(31));
  EXPECT_EQ(book.of(kHere).computing_tokens, 70);
  const Delivered before = book.of(kHere).delivered;
  book.answered(RequestId(1), 7, at(100));
  EXPECT_EQ(book.of(kHere).delivered.since(before),
            (Delivered{.prompt_tokens = 100, .tokens = 7, .gaps = Span::ms(100)}));
  book.answered(RequestId(2), 9, at(100));
  EXPECT_EQ(book.of(kHere).delivered.since(before).tokens, 7) << "its stream was counted as it came";
}

TEST(WorkBook, AnAnswerThatIsKnownToComeAsAWholeDecodesAtOnce) {
  WorkBook book;
  book.start(request(1, 100), kHere, false, at(0));
  book.start(request(2, 30), kHere, false, at(1));
  EXPECT_EQ(book.at(RequestId(1)), kHere);
  EXPECT_EQ(book.at(RequestId(9)), kNoInstance);
  (void)book.take_changed();
  book.unseen(RequestId(1));
  EXPECT_TRUE(book.changed());
  EXPECT_EQ(book.of(kHere).requests, 2);
  EXPECT_EQ(book.of(kHere).prompts, 1);
  EXPECT_EQ(book.of(kHere).computing_tokens, 30) << "it waits for nobody";
  book.unseen(RequestId(1));
  EXPECT_EQ(book.of(kHere).prompts, 1);
  const Delivered before = book.of(kHere).delivered;
  book.answered(RequestId(1), 7, at(100));
  EXPECT_EQ(book.of(kHere).delivered.since(before).tokens, 7);
  EXPECT_EQ(book.of(kHere).requests, 1);
  // A prompt that moves is computed before its decode begins.
  book.start(request(3, 10), InstanceId(1), true, at(200));
  book.unseen(RequestId(3));
  EXPECT_EQ(book.of(InstanceId(1)).prompts, 1);
}

TEST(WorkBook, WhatADecodeInstanceAnswersAsAWholeIsCountedThere) {
  constexpr InstanceId kDecode{1};
  for (const bool streamed : {false, true}) {
    WorkBook book;
    book.start(request(1, 100), kHere, true, at(0));
    book.prompt_done(RequestId(1), at(20));
    book.hand_over(request(1, 100), kDecode, at(25));
    if (streamed) book.prompt_done(RequestId(1), at(40));
    const Delivered before = book.of(kDecode).delivered;
    book.answered(RequestId(1), 7, at(105));
    const Delivered whole{.tokens = 7, .gaps = Span::ms(80)};
    EXPECT_EQ(book.of(kDecode).delivered.since(before), streamed ? Delivered{} : whole);
  }
}

TEST(WorkBook, SumsUpWhatHasCome) {
  WorkBook book;
  book.start(request(1, 100), kHere, false, at(10));
  book.start(request(2, 30), kHere, false, at(20));
  book.prompt_done(RequestId(1), at(40));
  book.prompt_done(RequestId(2), at(60));
  book.leave(RequestId(1));
  const Delivered two{.prompts = 2, .prompt_tokens = 130, .waits = Span::ms(30 + 40), .computing = Span::ms(30 + 20)};
  EXPECT_EQ(book.of(kHere).delivered, two);
  const auto counted = book.of(kHere).with_streams(35, 5, Span::ms(90));
  EXPECT_EQ(counted.output_tokens, 5);
  EXPECT_EQ(counted.delivered.since(two), (Delivered{.tokens = 5, .gaps = Span::ms(90)}));
}

TEST(WorkBook, ARequestIsWhereItsLegIs) {
  WorkBook book;
  Request r;
  r.id = RequestId(1);
  r.arrival = Instant(9);
  r.prompt_tokens = 50;
  book.start(r, InstanceId(0), true, at(0));
  EXPECT_EQ(book.of(InstanceId(0)), (InstanceWork{1, 50, 1, 50, Instant(9), 1, 50}));
  EXPECT_EQ(book.take_changed(), std::vector<InstanceId>{InstanceId(0)});
  book.hand_over(r, InstanceId(2), at(30));
  EXPECT_EQ(book.of(InstanceId(0)).prompts, 1) << "both legs at once: its prompt is still computed there";
  book.prompt_done(r.id, at(40));
  EXPECT_EQ(but_delivered(book.of(InstanceId(0))), InstanceWork{});
  EXPECT_EQ(book.of(InstanceId(2)), (InstanceWork{1, 50, 0, 0, Instant::never()}));
  book.leave(r.id);
  book.leave(r.id);
  EXPECT_EQ(book.of(InstanceId(2)), InstanceWork{});
  r.id = RequestId(2);
  book.start(r, InstanceId(1), false, at(50));
  book.prompt_done(r.id, at(60));
  EXPECT_EQ(but_delivered(book.of(InstanceId(1))), (InstanceWork{1, 50, 0, 0, Instant::never()}));
}

/// The incremental sums equal those counted over all requests.
RC_GTEST_PROP(WorkBook, ItsSumsAreThoseOfItsRequests, ()) {
  struct Leg {
    InstanceId at = kNoInstance;
    bool prompt = false;
  };
  struct Known {
    Request request;
    bool moves = false;
    int number = 0;
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
        r.arrival = Instant(*rc::gen::inRange<std::int64_t>(0, 20));  // several at the same time, not in order
        r.prompt_tokens = *rc::gen::inRange(1, 9);
        const bool moves = *rc::gen::arbitrary<bool>();
        book.start(r, there, moves, at(0));
        known[id.value()] = {r, moves, step, {there, true}, {}};
        break;
      }
      case 1:
        if (const auto k = known.find(id.value());
            k != known.end() && k->second.moves && k->second.second.at == kNoInstance) {
          if (k->second.first.at == there) break;
          book.hand_over(k->second.request, there, at(0));
          k->second.second = {there, false};
        }
        break;
      case 2:
      case 3:
        if (std::ranges::any_of(known, [&](const auto& other) {
              const auto k = known.find(id.value());
              return k != known.end() && other.second.first.prompt && other.second.first.at == k->second.first.at &&
                     !other.second.moves && other.second.number < k->second.number;
            })) {
          break;  // a request that overtakes others implies that these are computed
        }
        book.prompt_done(id, at(0));
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
      const InstanceWork work = but_delivered(book.of(InstanceId(i)));
      RC_ASSERT(work.computing <= work.prompts && work.computing_tokens <= work.prompt_tokens);
      sum.computing = work.computing;
      sum.computing_tokens = work.computing_tokens;
      sum.computing_since = work.computing_since;
      RC_ASSERT(work == sum);
    }
  }
}

}  // namespace
}  // namespace wattle::control::work_book_test
