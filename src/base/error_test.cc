#include "base/error.h"

#include <gtest/gtest.h>

#include "base/check.h"

namespace wattle {
namespace {

Result<int> parse(bool good) {
  if (!good) return bad_input("trace.csv:3", "negative token count -4; must be >= 0");
  return 7;
}

TEST(Error, CarriesKindPlaceAndRemedy) {
  const auto failed = parse(false);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().kind, ErrorKind::BadInput);
  EXPECT_EQ(failed.error().message(), "trace.csv:3: negative token count -4; must be >= 0");
  EXPECT_EQ(parse(true).value(), 7);
  EXPECT_EQ(external_failure("", "port 80 is taken").error().message(), "port 80 is taken");
  EXPECT_EQ(external_failure("x", "y").error().kind, ErrorKind::External);
}

TEST(CheckDeathTest, BrokenInvariantSaysWhereAndWhyAndAborts) {
  const int held = -1;
  EXPECT_DEATH(WATTLE_CHECK(held >= 0, "a request left twice"),
               "invariant broken at .*error_test.cc:[0-9]+: held >= 0 \\(a request left twice\\)");
  WATTLE_CHECK(held < 0, "holds");
}

}  // namespace
}  // namespace wattle
