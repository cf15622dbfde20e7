#include "base/side_by_side.h"

#include <gtest/gtest.h>

#include <new>

namespace wattle {
namespace {

TEST(SideBySide, EveryTurnIsTakenOnce) {
  for (const unsigned threads : {0U, 1U, 3U, 50U}) {
    std::vector<std::atomic<int>> taken(20);
    side_by_side(threads, taken.size(), [&](std::size_t i) { ++taken[i]; });
    for (const auto& one : taken) EXPECT_EQ(one, 1) << threads;
  }
  side_by_side(4, 0, [](std::size_t) { FAIL(); });
}

TEST(SideBySide, WhatIsThrownOnAnotherThreadReachesTheCaller) {
  std::atomic<int> begun{0};
  const auto all_throw = [&](std::size_t) {
    ++begun;
    throw std::bad_alloc();
  };
  EXPECT_THROW(side_by_side(3, 1000, all_throw), std::bad_alloc);
  EXPECT_LE(begun, 3) << "nothing begins after that";
}

}  // namespace
}  // namespace wattle
