#include "policy/throttllem/pace.h"

#include <gtest/gtest.h>

namespace wattle::policy {
namespace {

class Constant final : public LatencyModel {
 public:
  explicit Constant(Span answer) : answer_(answer) {}
  [[nodiscard]] Span step_time(const StepShape&, MegaHertz) const override { return answer_; }

 private:
  Span answer_;
};

StepReport report(std::int64_t sequence, Instant start) {
  StepReport r;
  r.sequence = sequence;
  r.start = start;
  r.shape.decode_requests = 4;
  r.shape.decode_kv_tokens = 1'000;
  return r;
}

double after(Span real, Span predicted, int reports = 1'000) {
  Pace pace;
  const Constant model(predicted);
  for (int i = 0; i < reports; ++i) pace.step(report(i * 10, Instant() + real * (i * 10)), MegaHertz{1000}, model);
  return pace.ratio();
}

TEST(Pace, TendsToTheRatioOfSeenToPredicted) {
  EXPECT_EQ(after(Span::ms(30), Span::ms(20), 1), 1.0);
  EXPECT_NEAR(after(Span::ms(30), Span::ms(20)), 1.5, 0.01);
  EXPECT_EQ(after(Span::ms(10), Span::ms(20)), 1.0) << "never faster than predicted: deadlines are at stake";
  EXPECT_LE(after(Span::s(10), Span::ms(1)), Pace::kMost);
  EXPECT_EQ(after(Span::ms(30), Span()), 1.0) << "a broken predictor teaches nothing";
}

TEST(Pace, IdleTimeIsNoIteration) {
  Pace pace;
  const Constant model(Span::ms(10));
  pace.step(report(1, Instant()), MegaHertz{1000}, model);
  pace.pause();
  pace.step(report(2, Instant() + Span::s(100)), MegaHertz{1000}, model);
  EXPECT_EQ(pace.ratio(), 1.0);
  pace.step(report(2, Instant() + Span::s(200)), MegaHertz{1000}, model);
  EXPECT_EQ(pace.ratio(), 1.0) << "told twice";
}

}  // namespace
}  // namespace wattle::policy
