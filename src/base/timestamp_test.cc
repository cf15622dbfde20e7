#include "base/timestamp.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace wattle {

TEST(Timestamp, ReadsTheFormsTracesUse) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  EXPECT_EQ(parse_timestamp("1970-01-01 00:00:00"), 0);
  EXPECT_EQ(parse_timestamp("2023-11-16 18:15:46.6805900"), 1700158546 * kSecond + 680'590'000);
  EXPECT_EQ(parse_timestamp("2024-05-10 00:00:00.009930+00:00"), 1715299200 * kSecond + 9'930'000);
  EXPECT_EQ(parse_timestamp("2024-05-10T00:00:00Z"), 1715299200 * kSecond);
  EXPECT_EQ(parse_timestamp("2024-05-10 02:00:00+02:00"), 1715299200 * kSecond);
  EXPECT_EQ(parse_timestamp("2024-05-09 19:00:00-05:00"), 1715299200 * kSecond);
  EXPECT_EQ(parse_timestamp("2024-05-10 00:00"), 1715299200 * kSecond);
  EXPECT_TRUE(parse_timestamp("2024-02-29 00:00:00").has_value());
}

TEST(Timestamp, RefusesEverythingElse) {
  for (const char* text : {"",
                           "2023",
                           "2023-11-16",
                           "2023-11-16 18",
                           "2023-11-16 18:15:",
                           "2023-11-16 18:15:46.",
                           "2023-02-29 00:00:00",
                           "2023-13-01 00:00:00",
                           "2023-00-01 00:00:00",
                           "2023-01-32 00:00:00",
                           "2023-01-01 24:00:00",
                           "2023-01-01 00:60:00",
                           "2023-01-01 00:00:60",
                           "1969-12-31 23:59:59",
                           "2300-01-01 00:00:00",
                           "2023-01-01 00:00:00.0123456789",
                           "2023-01-01 00:00:00 ",
                           "2023-01-01 00:00:00+0200",
                           "2023-01-01 00:00:00x",
                           "-023-01-01 00:00:00",
                           "2023-01-01 00:00:-1",
                           "nan"}) {
    EXPECT_FALSE(parse_timestamp(text).has_value()) << text;
  }
}

RC_GTEST_PROP(Timestamp, FormatIsTheInverse, ()) {
  const auto ns = *rc::gen::inRange<std::int64_t>(0, 9'200'000'000'000'000'000);
  RC_ASSERT(parse_timestamp(format_timestamp(ns)) == ns);
}

}  // namespace wattle
