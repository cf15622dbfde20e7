#include "telemetry/fpm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/random.h"
#include "telemetry/fpm_socket.h"

namespace wattle::telemetry {
namespace {

using Bytes = std::vector<std::uint8_t>;
using nlohmann::json;

FpmMessage example() {
  FpmMessage m;
  m.worker_id = "w0";
  m.dp_rank = 0;
  m.counter_id = 300;
  m.wall_time_s = 0.5;
  m.scheduled = {1, 512, 0.0, 16, 3, 70'000, 2.0};
  m.queued = {2, 1000, 0.0, 0, 0, 0.0};
  return m;
}

// [1, "w0", 0, 300, 0.5, [1,512,0.0,16,3,70000,2.0], [2,1000,0.0,0,0,0.0]], written down by hand from the msgpack
// specification.
const Bytes kGolden = {0x97, 0x01, 0xa2, 'w',  '0',  0x00, 0xcd, 0x01, 0x2c,                             //
                       0xcb, 0x3f, 0xe0, 0,    0,    0,    0,    0,    0,                                //
                       0x97, 0x01, 0xcd, 0x02, 0x00, 0xcb, 0,    0,    0,    0, 0, 0, 0, 0, 0x10,        //
                       0x03, 0xce, 0x00, 0x01, 0x11, 0x70, 0xcb, 0x40, 0,    0, 0, 0, 0, 0, 0,           //
                       0x96, 0x02, 0xcd, 0x03, 0xe8, 0xcb, 0,    0,    0,    0, 0, 0, 0, 0, 0x00, 0x00,  //
                       0xcb, 0,    0,    0,    0,    0,    0,    0,    0};

TEST(Fpm, GoldenBytesBothWays) {
  Bytes bytes;
  encode_fpm(example(), bytes);
  EXPECT_EQ(bytes, kGolden);
  const auto m = decode_fpm(kGolden);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->worker_id, "w0");
  EXPECT_EQ(m->counter_id, 300);
  EXPECT_EQ(m->wall_time_s, 0.5);
  EXPECT_EQ(m->scheduled, example().scheduled);
  EXPECT_EQ(m->queued, example().queued);
}

TEST(Fpm, ReadsVllmsVariantWithItsTimingScope) {
  const json vllm = {1, "w", 0, 7, "execute_model_cuda", 0.25, {0, 0, 0.0, 0, 4, 99, 0.0}, {0, 0, 0.0, 0, 0, 0.0}};
  const Bytes bytes = json::to_msgpack(vllm);
  const auto m = decode_fpm(bytes);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->timing_scope, "execute_model_cuda");
  EXPECT_EQ(m->wall_time_s, 0.25);
  EXPECT_EQ(m->scheduled.sum_decode_kv_tokens, 99);
}

TEST(Fpm, ReadsStructuresWrittenAsMaps) {
  const json named = {
      {"version", 1},
      {"worker_id", "w"},
      {"counter_id", 9},
      {"wall_time", 1},
      {"novel", {1, {{"deep", nullptr}}}},
      {"scheduled_requests", {{"num_decode_requests", 5}, {"sum_decode_kv_tokens", 123'456}, {"other", "x"}}},
      {"queued_requests", {{"num_prefill_requests", 2}}}};
  const auto m = decode_fpm(json::to_msgpack(named));
  ASSERT_TRUE(m);
  EXPECT_EQ(m->counter_id, 9);
  EXPECT_EQ(m->wall_time_s, 1.0);
  EXPECT_EQ(m->scheduled.num_decode_requests, 5);
  EXPECT_EQ(m->scheduled.sum_decode_kv_tokens, 123'456);
  EXPECT_EQ(m->queued.num_prefill_requests, 2);
}

TEST(Fpm, OthersTrailingElementsAreSkipped) {
  json grown = json::from_msgpack(kGolden);
  grown.push_back({{"future", json::array({1, 2, 3})}, {"age_ns", "not a number"}});
  grown.push_back("and more");
  grown[5].push_back(77);
  const auto m = decode_fpm(json::to_msgpack(grown));
  ASSERT_TRUE(m);
  EXPECT_EQ(m->scheduled, example().scheduled);
  EXPECT_FALSE(m->extra.oldest_scheduled_age);
}

TEST(Fpm, WrongMessagesAreNamed) {
  const auto error_of = [](const json& j) { return decode_fpm(json::to_msgpack(j)).error(); };
  const json zeros6 = {0, 0, 0, 0, 0, 0};
  const json zeros7 = {0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(error_of("text"), FpmError::WrongShape);
  EXPECT_EQ(error_of({1, "w", 0, 1, 0.0}), FpmError::WrongShape);
  EXPECT_EQ(error_of({1, "w", 0, 1, 0.0, zeros6, zeros6}), FpmError::WrongShape);
  EXPECT_EQ(error_of({1, 5, 0, 1, 0.0, zeros7, zeros6}), FpmError::WrongShape);
  EXPECT_EQ(error_of({2, "w", 0, 1, 0.0, zeros7, zeros6}), FpmError::OtherVersion);
  EXPECT_EQ(error_of({1, "w", 0, 1, -1.0, zeros7, zeros6}), FpmError::OutOfRange);
  EXPECT_EQ(error_of({1, "w", 0, 1, std::nan(""), zeros7, zeros6}), FpmError::OutOfRange);
  EXPECT_EQ(error_of({1, "w", 0, 1, 0.0, {std::nan(""), 0, 0, 0, 0, 0, 0}, zeros6}), FpmError::WrongShape);
  EXPECT_EQ(error_of({1, "w", 0, 1, 0.0, {nullptr, 0, 0, 0, 0, 0, 0}, zeros6}), FpmError::WrongShape);
  EXPECT_EQ(error_of({1, "w", 0, 1, 0.0, {-1, 0, 0, 0, 0, 0, 0}, zeros6}), FpmError::OutOfRange);
  EXPECT_EQ(error_of({1, "w", 0, 1, 0.0, {0, 0, 0, 0, 5'000'000'000, 0, 0}, zeros6}), FpmError::OutOfRange);
  EXPECT_EQ(decode_fpm({}).error(), FpmError::Truncated);
}

TEST(Fpm, EveryTruncationIsAnError) {
  FpmMessage m = example();
  m.extra = {Span::ms(5), 71'000, 8192, 512, MegaHertz{1005}, true};
  Bytes bytes;
  encode_fpm(m, bytes);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_EQ(decode_fpm({bytes.data(), n}).error(), FpmError::Truncated) << n;
  }
  EXPECT_TRUE(decode_fpm(bytes));
}

TEST(Fpm, AStepReportSurvivesTheWire) {
  rc::check("report -> bytes -> report", [] {
    const auto count = [] { return *rc::gen::inRange<std::int64_t>(0, 1LL << *rc::gen::inRange(1, 31)); };
    StepReport r;
    r.instance = InstanceId(3);
    r.sequence = count();
    r.shape.decode_requests = static_cast<std::int32_t>(count());
    r.shape.decode_kv_tokens = count() * 1000;
    r.shape.prefill_requests = static_cast<std::int32_t>(*rc::gen::inRange(0, 300));
    r.shape.prefill_tokens = r.shape.prefill_requests * 7;
    r.shape.prefill_context_tokens = r.shape.prefill_requests == 0 ? 0 : count() * 1'000'000;
    r.waiting_requests = static_cast<std::int32_t>(count());
    r.waiting_prompt_tokens = count();
    r.unfinished_prompt_tokens = count();
    r.kv_tokens = count();
    r.clock = MegaHertz(*rc::gen::inRange(0, 3'000));
    const Instant now(1'000'000'000'000);
    r.start = now;
    if (r.shape.prefill_requests > 0) r.oldest_scheduled_arrival = now - Span(count());
    Bytes bytes;
    encode_fpm(to_fpm(r, "worker", now), bytes);
    // An independent decoder reads the same numbers.
    const json seen = json::from_msgpack(bytes);
    RC_ASSERT(seen[3] == r.sequence);
    RC_ASSERT(seen[5][4] == r.shape.decode_requests);
    const StepReport back = to_step_report(decode_fpm(bytes).value(), r.instance, now);
    RC_ASSERT(back.sequence == r.sequence);
    RC_ASSERT(back.start == r.start);
    RC_ASSERT(back.shape.decode_requests == r.shape.decode_requests);
    RC_ASSERT(back.shape.decode_kv_tokens == r.shape.decode_kv_tokens);
    RC_ASSERT(back.shape.prefill_requests == r.shape.prefill_requests);
    RC_ASSERT(back.shape.prefill_tokens == r.shape.prefill_tokens);
    if (r.shape.prefill_context_tokens != 0)
      RC_ASSERT(back.shape.prefill_context_tokens == r.shape.prefill_context_tokens);
    RC_ASSERT(back.waiting_requests == r.waiting_requests);
    RC_ASSERT(back.waiting_prompt_tokens == r.waiting_prompt_tokens);
    RC_ASSERT(back.oldest_scheduled_arrival == r.oldest_scheduled_arrival);
    RC_ASSERT(back.unfinished_prompt_tokens == r.unfinished_prompt_tokens);
    RC_ASSERT(back.kv_tokens == r.kv_tokens);
    RC_ASSERT(back.clock == r.clock);
  });
}

TEST(Fpm, WithoutTheExtraElementTheReportIsStillUsable) {
  const Instant now(50'000);
  const StepReport r = to_step_report(decode_fpm(kGolden).value(), InstanceId(1), now);
  EXPECT_EQ(r.shape.prefill_context_tokens, 512 * (16 + 256));
  EXPECT_EQ(r.oldest_scheduled_arrival, now);
  EXPECT_EQ(r.kv_tokens, 70'000);
  EXPECT_EQ(r.waiting_requests, 2);
  EXPECT_EQ(r.clock, MegaHertz{0}) << "not reported";
}

TEST(Fpm, SaysWhatAStepGaveItsRequestsWhereThatMakesSense) {
  const auto heard = [](std::int64_t requests, std::int64_t tokens) {
    const json j = {
        1, "w", 0, 7, 0.25, {0, 0, 0.0, 0, 4, 99, 0.0}, {0, 0, 0.0, 0, 0, 0.0}, {{"of", requests}, {"tok", tokens}}};
    const Bytes bytes = json::to_msgpack(j);
    return to_step_report(decode_fpm(bytes).value(), InstanceId(0), Instant()).yield;
  };
  EXPECT_EQ(heard(4, 9), (StepYield{4, 9}));
  EXPECT_EQ(heard(4, 4), (StepYield{4, 4}));
  EXPECT_EQ(heard(4, 3), StepYield{}) << "each has one at least";
  EXPECT_EQ(heard(0, 9), StepYield{});
  EXPECT_EQ(heard(-1, 9), StepYield{});
  EXPECT_EQ(heard(4, 9'000'000), StepYield{});
  StepReport report;
  report.yield = {300, 707};
  Bytes bytes;
  encode_fpm(to_fpm(report, "w", Instant()), bytes);
  EXPECT_EQ(to_step_report(decode_fpm(bytes).value(), InstanceId(0), Instant()).yield, report.yield);
}

/// A host that vanishes sends nothing, and a subscriber sends nothing anyway, so only probes detect it.
TEST(Fpm, AConnectionThatSaysNothingIsProbed) {
  auto publisher = FpmPublisher::bind("tcp://127.0.0.1:*", "w").value();
  const std::string at = publisher.endpoint();
  auto subscriber = FpmSubscriber::connect({{at, InstanceId(0)}}).value();
  const std::string to = fmt::format(":{:04X} 01 ", std::stoi(at.substr(at.rfind(':') + 1)));
  const auto probed = [&] {  // the kernel shows a timer of that kind
    std::ifstream connections("/proc/net/tcp");
    for (std::string line; std::getline(connections, line);) {
      const std::size_t found = line.find(to);
      if (found != std::string::npos && line.find(" 02:", found) != std::string::npos) return true;
    }
    return false;
  };
  bool seen = false;
  for (int tries = 0; tries < 3'000 && !seen; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    seen = probed();
  }
  EXPECT_TRUE(seen);
}

TEST(Fpm, ComesOverIPv6) {
  auto publisher = FpmPublisher::bind("tcp://[::1]:*", "w");
  if (!publisher) {
    std::ifstream addresses("/proc/net/if_inet6");
    std::string line;
    ASSERT_FALSE(std::getline(addresses, line)) << publisher.error().message();
    GTEST_SKIP() << "this machine has no IPv6";
  }
  auto subscriber = FpmSubscriber::connect({{publisher->endpoint(), InstanceId(0)}});
  ASSERT_TRUE(subscriber) << subscriber.error().message();
  int came = 0;
  for (int tries = 0; tries < 1'000 && came == 0; ++tries) {
    publisher->publish(StepReport{}, Instant());
    subscriber->poll(
        Span::ms(10), [] { return Instant(); }, [&](const StepReport&, Instant) { ++came; });
  }
  EXPECT_GT(came, 0);
}

TEST(Fpm, SurvivesAnyBytes) {
  RandomStream random(1, "fpm-fuzz");
  FpmMessage m = example();
  m.extra = {Span::ms(5), 71'000, 8192, 512, MegaHertz{1005}, true};
  Bytes good;
  encode_fpm(m, good);
  std::int64_t decoded = 0;
  for (int i = 0; i < 200'000; ++i) {
    Bytes bytes;
    if (i % 2 == 0) {
      bytes = good;
      for (std::uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
        bytes[random.below(bytes.size())] = static_cast<std::uint8_t>(random.next_u64());
      }
      if (random.below(4) == 0) bytes.resize(random.below(bytes.size()));
    } else {
      bytes.resize(random.below(64));
      for (auto& b : bytes) b = static_cast<std::uint8_t>(random.next_u64());
      if (!bytes.empty() && i % 4 == 1) bytes[0] = 0x97;
    }
    const auto result = decode_fpm(bytes);
    if (!result) continue;
    ++decoded;
    const StepReport r = to_step_report(*result, InstanceId(0), Instant(1));
    EXPECT_GE(r.shape.decode_requests, 0);
    EXPECT_GE(r.waiting_requests, 0);
    EXPECT_GE(r.kv_tokens, 0);
  }
  EXPECT_GT(decoded, 1000) << "the fuzzer reaches past the checks";
}

}  // namespace
}  // namespace wattle::telemetry
