#include "net/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "net/line_writer.h"

namespace wattle::net {
namespace {

constexpr const char* kHostile = "a\xff\r\n{\"level\":\"error\"} \x1b[31m\\";

TEST(Log, NoByteFromOutsideEndsALineOrBeginsOne) {
  const LogField fields[] = {{"request_id", std::string_view(kHostile)}, {"status", std::int64_t{200}}};
  for (const LogFormat format : {LogFormat::Text, LogFormat::Json}) {
    const std::string line = log_text(format, kHostile, fields);
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; })) << line;
  }
  const auto object = nlohmann::json::parse("{" + log_text(LogFormat::Json, "request", fields) + "}");
  EXPECT_EQ(object["message"], "request");
  EXPECT_EQ(object["status"], 200);
  EXPECT_EQ(object["request_id"], "a\xef\xbf\xbd\r\n{\"level\":\"error\"} \x1b[31m\\");
  EXPECT_EQ(object.size(), 3U);
}

TEST(Log, WhatIsNotKnownIsNullAndLeftOutOfText) {
  const LogField fields[] = {
      {"energy_j", {}}, {"carbon_g", 0.25}, {"stream", true}, {"model", std::string_view("a b")}};
  EXPECT_EQ(log_text(LogFormat::Json, "x", fields),
            R"("message":"x","energy_j":null,"carbon_g":0.25,"stream":true,"model":"a b")");
  EXPECT_EQ(log_text(LogFormat::Text, "x", fields), R"(x carbon_g=0.25 stream=true model="a b")");
}

TEST(Log, LongValuesAreCut) {
  const std::string long_one(100'000, 'x');
  const LogField fields[] = {{"request_id", std::string_view(long_one)}};
  EXPECT_LT(log_text(LogFormat::Text, "x", fields).size(), 2000U);
}

struct Pipe : testing::Test {
  Pipe() { EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0); }
  ~Pipe() override {
    for (const int end : ends) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  /// Nothing more fits, and a write would wait.
  void fill() const {
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    for (const std::size_t size : {4096U, 1U}) {
      const std::string block(size, 'x');
      while (::write(ends[1], block.data(), size) > 0) {
      }
    }
    ::fcntl(ends[1], F_SETFL, 0);
  }
  std::array<int, 2> ends{};
};

TEST_F(Pipe, LinesAreWrittenInOrder) {
  LineWriter lines(ends[1], 1000);
  lines.add("one\n");
  lines.add("two\n");
  EXPECT_TRUE(lines.flush(Span::s(20)));
  std::string read(8, ' ');
  EXPECT_EQ(::read(ends[0], read.data(), read.size()), 8);
  EXPECT_EQ(read, "one\ntwo\n");
  EXPECT_EQ(lines.lost(), 0);
}

TEST_F(Pipe, OneThatIsFullHoldsNobodyUpAndWhatDoesNotFitIsCounted) {
  fill();
  {
    LineWriter lines(ends[1], 1000);
    for (int i = 0; i < 30; ++i) lines.add(std::string(99, 'a') + "\n");
    EXPECT_FALSE(lines.flush(Span::ms(1)));
    EXPECT_EQ(lines.lost(), 20);
  }              // its end waits no longer than a second
  ends[1] = -1;  // stays open for the thread that is left to its write; it ends with the reader
}

TEST_F(Pipe, OneWithoutAReaderLosesLinesAndEndsNothing) {
  LineWriter lines(ends[1], 1000);
  ::close(ends[0]);
  lines.add("nobody reads this\n");
  EXPECT_TRUE(lines.flush(Span::s(20)));
  EXPECT_EQ(lines.lost(), 1);
  ends[0] = -1;
}

}  // namespace
}  // namespace wattle::net
