#include "gateway/agent_answer.h"

#include <gtest/gtest.h>

namespace wattle::gateway {
namespace {

TEST(AgentAnswer, MeasuredStepsAreReadAndWrongOnesLeftOut) {
  const auto answer = read_agent_answer(
      R"({"started_unix_us": 1700000000000000, "engines": [{"engine": "e"}], "next_step": 7, "steps": [
      {"engine": "e", "clock_mhz": 1410, "duration_ns": 20000000, "decode_requests": 3, "decode_kv_tokens": 900,
       "prefill_requests": 0, "prefill_tokens": 0, "prefill_context_tokens": 0},
      {"engine": "e", "clock_mhz": 1410, "duration_ns": -1, "decode_requests": 3, "decode_kv_tokens": 900,
       "prefill_requests": 0, "prefill_tokens": 0, "prefill_context_tokens": 0},
      {"engine": "e", "duration_ns": 5}, 4]})");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->started_unix_us, 1'700'000'000'000'000);
  EXPECT_EQ(answer->next_step, 7);
  ASSERT_EQ(answer->steps.size(), 1U);
  EXPECT_EQ(answer->steps[0].engine, "e");
  EXPECT_EQ(answer->steps[0].step.clock, MegaHertz(1410));
  EXPECT_EQ(answer->steps[0].step.duration, Span::ms(20));
  EXPECT_EQ(answer->steps[0].step.shape.decode_requests, 3);
  EXPECT_EQ(answer->steps[0].step.shape.decode_kv_tokens, 900);
}

}  // namespace
}  // namespace wattle::gateway
