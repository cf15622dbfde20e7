#include "engine/step_run.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace wattle::engine {
namespace {

/// The definition: the steps that end at or before this nanosecond.
std::int64_t counted(const StepRun& run, Instant now) {
  std::int64_t done = 0;
  while (done < run.steps && to_instant(run.after(done + 1)) <= now) ++done;
  return done;
}

TEST(StepRun, AGapBeyondWhatItsCountersHoldCountsAsTheLongest) {
  EXPECT_EQ(gap_of(to_fixed(Span::ms(20))), static_cast<std::int64_t>(to_fixed(Span::ms(20))));
  EXPECT_EQ(gap_of(to_fixed(Span::ms(9'000'000))), std::numeric_limits<std::int64_t>::max());
}

RC_GTEST_PROP(StepRun, CountsTheStepsThatHaveEnded, ()) {
  const std::int64_t ms = std::int64_t{1000000} << kTimeFractionBits;
  StepRun run;
  run.start = Int128{*rc::gen::inRange<std::int64_t>(0, 1000000 * ms / 1000)} * 1000 + *rc::gen::inRange(0, 1000);
  run.first = *rc::gen::inRange<std::int64_t>(1, 200 * ms);
  run.increment = *rc::gen::element<std::int64_t>(0, 1, 1000, ms / 1000, ms);
  run.steps = *rc::gen::inRange<std::int64_t>(0, 2000);
  // At ends of steps, a nanosecond to either side, before it and after it.
  const auto near = *rc::gen::inRange<std::int64_t>(-1, run.steps + 2);
  const Instant now = to_instant(run.after(near)) + Span::ns(*rc::gen::inRange(-1, 2));
  RC_ASSERT(run.done_by(now) == counted(run, now));
}

}  // namespace
}  // namespace wattle::engine
