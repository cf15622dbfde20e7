#include "base/text_line.h"

#include <gtest/gtest.h>

namespace wattle {
namespace {

TEST(TextLine, lines_are_taken_without_their_ends) {
  std::string_view text = "a\r\n\nb,\r\r\nlast";
  EXPECT_EQ(take_line(text), "a");
  EXPECT_EQ(take_line(text), "");
  EXPECT_EQ(take_line(text), "b,\r");
  EXPECT_EQ(text, "last");
  EXPECT_EQ(take_line(text), "last");
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(take_line(text), "");
}

TEST(TextLine, a_position_has_a_line) {
  EXPECT_EQ(line_at("a\nb\n", 0), 1);
  EXPECT_EQ(line_at("a\nb\n", 2), 2);
  EXPECT_EQ(line_at("a\nb", 99), 2);
}

}  // namespace
}  // namespace wattle
