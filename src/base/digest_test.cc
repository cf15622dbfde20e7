#include "base/digest.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <vector>

namespace wattle {
namespace {

std::uint64_t digest_of(const std::vector<std::int64_t>& values) {
  Digest d;
  for (const auto v : values) d.add(v);
  return d.value();
}

TEST(Digest, ValuesAreThoseOfAnIndependentImplementation) {
  // Computed with arbitrary-precision integers from the definition in digest.h. They name runs: they may not change.
  Digest empty;
  empty.add_text("");
  EXPECT_EQ(empty.value(), 0xc385fb0a5b698a7dULL);
  Digest text;
  text.add_text("arrivals");
  EXPECT_EQ(text.value(), 0x6441c2c7c8724f46ULL);
}

TEST(Digest, TextCarriesItsLength) {
  Digest split_early;
  split_early.add_text("a");
  split_early.add_text("bc");
  Digest split_late;
  split_late.add_text("ab");
  split_late.add_text("c");
  EXPECT_NE(split_early.value(), split_late.value());
}

TEST(Digest, WidthAndSignednessOfAValueDoNotMatter) {
  Digest narrow;
  narrow.add(std::int32_t{-3});
  Digest wide;
  wide.add(std::int64_t{-3});
  EXPECT_EQ(narrow.value(), wide.value());
}

RC_GTEST_PROP(Digest, OneChangedBitChangesIt, ()) {
  auto values = *rc::gen::nonEmpty<std::vector<std::int64_t>>();
  const std::uint64_t before = digest_of(values);
  const auto at = *rc::gen::inRange<std::size_t>(0, values.size());
  const auto bit = *rc::gen::inRange(0, 64);
  values[at] = std::bit_cast<std::int64_t>(std::bit_cast<std::uint64_t>(values[at]) ^ (1ULL << bit));
  RC_ASSERT(digest_of(values) != before);
}

RC_GTEST_PROP(Digest, OrderMatters, (std::int64_t a, std::int64_t b)) {
  RC_PRE(a != b);
  RC_ASSERT(digest_of({a, b}) != digest_of({b, a}));
}

RC_GTEST_PROP(Digest, LengthMatters, (const std::vector<std::int64_t>& values)) {
  auto longer = values;
  longer.push_back(0);
  RC_ASSERT(digest_of(longer) != digest_of(values));
}

}  // namespace
}  // namespace wattle
