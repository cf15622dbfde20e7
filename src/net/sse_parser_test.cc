#include "net/sse_parser.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace wattle::net {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

void drain(SseParser& parser, Events& out) {
  while (const auto event = parser.next()) out.emplace_back(event->type, event->data);
}

Events whole(std::string_view bytes) {
  SseParser parser;
  Events out;
  parser.feed(bytes);
  drain(parser, out);
  return out;
}

TEST(SseParser, ReadsFieldsCommentsAndAllLineEnds) {
  EXPECT_EQ(whole("data: one\n\n"), (Events{{"", "one"}}));
  EXPECT_EQ(whole("\xEF\xBB\xBF"
                  "data:one\r\n\r\n"),
            (Events{{"", "one"}}));
  EXPECT_EQ(whole("event: error\rdata: a\rdata: b\r\r"), (Events{{"error", "a\nb"}}));
  EXPECT_EQ(whole(": ping\n\nid: 7\ndata:  x\n\n"), (Events{{"", " x"}}));
  EXPECT_EQ(whole("data\n\n"), (Events{{"", ""}}));
  EXPECT_EQ(whole("event: lonely\n\ndata: y\n\n"), (Events{{"", "y"}}));
  EXPECT_EQ(whole("data: cut off\n"), Events{});
}

TEST(SseParser, SaysHowFarCompleteEventsReach) {
  SseParser parser;
  Events out;
  parser.feed("data: a\n\ndata: b");
  drain(parser, out);
  EXPECT_EQ(parser.complete_bytes(), 9U);
  parser.feed("\n\n");
  drain(parser, out);
  EXPECT_EQ(parser.complete_bytes(), 2U);
  EXPECT_EQ(out, (Events{{"", "a"}, {"", "b"}}));
}

TEST(SseParser, ALineFeedThatComesLaterEndsAnEventOnlyAfterABlankLine) {
  SseParser parser;
  Events out;
  const auto complete = [&](std::string_view bytes) {
    parser.feed(bytes);
    drain(parser, out);
    return parser.complete_bytes();
  };
  EXPECT_EQ(complete("id: 7\r"), 0U);
  EXPECT_EQ(complete("\n"), 0U) << "the line's end, not the event's";
  EXPECT_EQ(complete("data: a\r"), 0U);
  EXPECT_EQ(complete("\n\r"), 2U);
  EXPECT_EQ(complete("\nid: 8\r\n"), 1U) << "of the event before";
  EXPECT_EQ(complete("data: b\r\n\r\n"), 11U);
  EXPECT_EQ(out, (Events{{"", "a"}, {"", "b"}}));
}

TEST(SseParser, LineEndsOfOneKindDoNotHideTheOther) {
  EXPECT_EQ(whole("data: a\r\rdata: b\n\ndata: c\r\n\r\n"), (Events{{"", "a"}, {"", "b"}, {"", "c"}}));
  EXPECT_EQ(whole("data: a\n\ndata: b\r\rdata: c\n\n"), (Events{{"", "a"}, {"", "b"}, {"", "c"}}));
}

TEST(SseParser, BoundsAnEvent) {
  SseParser parser(100);
  const std::string endless(60, 'x');
  Events out;
  for (int i = 0; i < 3; ++i) {
    parser.feed(endless);
    drain(parser, out);
  }
  EXPECT_TRUE(parser.overflowed());
  SseParser lines(100);
  for (int i = 0; i < 10; ++i) {
    lines.feed("data: 0123456789012345678901234567890123456789\n");
    drain(lines, out);
  }
  EXPECT_TRUE(lines.overflowed());
  EXPECT_TRUE(out.empty());
}

RC_GTEST_PROP(SseParserProperty, AnyChunkingGivesTheSameEvents, ()) {
  const auto pieces = *rc::gen::container<std::vector<std::string>>(
      rc::gen::elementOf(std::vector<std::string>{"data: ", "data:", "event: e", ":c", "\n", "\r", "\r\n", "\n\n", "x",
                                                  "{\"a\":1}", " ", "id: 3", "retry", "\xEF\xBB\xBF", "data"}));
  std::string bytes;
  for (const auto& piece : pieces) bytes += piece;
  const Events expected = whole(bytes);
  SseParser parser;
  Events out;
  std::size_t at = 0;
  std::size_t sent = 0;  // bytes a relay would have passed on
  while (at < bytes.size()) {
    const auto n = *rc::gen::inRange<std::size_t>(1, bytes.size() - at + 1);
    const std::string chunk = bytes.substr(at, n);  // its own storage, so that a stale view shows
    parser.feed(chunk);
    const std::size_t before = out.size();
    drain(parser, out);
    RC_ASSERT(parser.complete_bytes() <= n);
    if (out.size() > before) RC_ASSERT(parser.complete_bytes() > 0U);
    if (parser.complete_bytes() > 0) sent = at + parser.complete_bytes();
    at += n;
  }
  RC_ASSERT(out == expected);
  RC_ASSERT(whole(bytes.substr(0, sent)) == expected);
}

}  // namespace
}  // namespace wattle::net
