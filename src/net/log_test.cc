#include "net/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

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

}  // namespace
}  // namespace wattle::net
