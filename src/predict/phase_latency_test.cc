#include "predict/phase_latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace wattle::predict {
namespace {

/// 10 ms + 1 us a KV token for decodes, 1 ms a prompt token; anything else is a mistake of the caller.
class Decodes final : public LatencyModel {
  [[nodiscard]] Span step_time(const StepShape& s, MegaHertz) const override {
    EXPECT_EQ(s.prefill_tokens, 0);
    return Span::ms(10) + Span::us(s.decode_kv_tokens);
  }
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& s, MegaHertz, Span budget) const override {
    return std::max(s.decode_kv_tokens, (budget - Span::ms(10)).ns() / 1000);
  }
};
class Prompts final : public LatencyModel {
  [[nodiscard]] Span step_time(const StepShape& s, MegaHertz) const override {
    EXPECT_EQ(s.decode_requests, 0);
    return Span::ms(s.prefill_tokens);
  }
};

TEST(PhaseLatency, EachPhaseAsksItsOwnModel) {
  const PhaseLatency model(std::make_shared<Decodes>(), std::make_shared<Prompts>());
  StepShape shape;
  EXPECT_EQ(model.step_time(shape, MegaHertz{1000}), Span());
  shape.decode_requests = 3;
  shape.decode_kv_tokens = 500;
  EXPECT_EQ(model.step_time(shape, MegaHertz{1000}), Span::us(10'500));
  shape.prefill_tokens = 7;
  EXPECT_EQ(model.step_time(shape, MegaHertz{1000}), Span::us(17'500));
  EXPECT_EQ(model.kv_tokens_within(shape, MegaHertz{1000}, Span::ms(20)), 3'000);
  shape.decode_requests = 0;
  EXPECT_EQ(model.step_time(shape, MegaHertz{1000}), Span::ms(7));
  const std::vector<std::int32_t> requests{1, 2};
  const std::vector<std::int64_t> kv{0, 1'000};
  std::vector<Span> out(2);
  model.decode_times(requests, kv, MegaHertz{1000}, out);
  EXPECT_EQ(out, (std::vector<Span>{Span::ms(10), Span::ms(11)}));
}

}  // namespace
}  // namespace wattle::predict
