#include "model/turned_out.h"

#include <gtest/gtest.h>

namespace wattle {
namespace {

TEST(TurnedOut, SinceIsWhatIsNewAndAllOfACounterThatRestarted) {
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
  TurnedOut restarted;
  restarted.add(ClassId(1), ClassId(0), 2);
  EXPECT_EQ(restarted.since(before).rows(), restarted.rows());
  EXPECT_EQ(TurnedOut().since(before).rows(), TurnedOut().rows());
}

TEST(TurnedOut, WhatWasLateIsCountedBesideIt) {
  TurnedOut before, now;
  before.add(ClassId(1), ClassId(0), 3);
  before.add_late(ClassId(1), 2);
  now.add(before);
  now.add(ClassId(1), ClassId(0), 4);
  now.add_late(ClassId(1));
  now.add_late(ClassId(0));
  EXPECT_EQ(now.late(), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(now.since(before).late(), (std::vector<std::int64_t>{1, 1}));
  TurnedOut restarted;
  restarted.add(ClassId(1), ClassId(0), 5);
  EXPECT_EQ(restarted.since(before).rows(), restarted.rows()) << "more requests than before, and fewer late";
}

}  // namespace
}  // namespace wattle
