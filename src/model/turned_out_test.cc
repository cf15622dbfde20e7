#include "model/turned_out.h"

#include <gtest/gtest.h>

namespace wattle {
namespace {

TEST(TurnedOut, SinceIsWhatIsNewAndAllOfACounterThatBeganAnew) {
  TurnedOut before, now;
  before.add(ClassId(1), ClassId(0), 3);
  now.add(before);
  now.add(ClassId(1), ClassId(0), 2);
  now.add(ClassId(0), ClassId(4));
  std::int64_t pairs = 0;
  now.since(before).each([&](ClassId taken_for, ClassId was, std::int64_t n) {
    ++pairs;
    EXPECT_EQ(n, taken_for == ClassId(1) ? 2 : 1);
    EXPECT_EQ(was, taken_for == ClassId(1) ? ClassId(0) : ClassId(4));
  });
  EXPECT_EQ(pairs, 2);
  TurnedOut anew;
  anew.add(ClassId(1), ClassId(0), 2);
  EXPECT_EQ(anew.since(before).rows(), anew.rows());
  EXPECT_EQ(TurnedOut().since(before).rows(), TurnedOut().rows());
}

}  // namespace
}  // namespace wattle
