#include "journal/slo_json.h"

#include <gtest/gtest.h>

namespace wattle::journal {
namespace {

TEST(SloJson, IsReadAsWritten) {
  Slo slo;
  slo.ttft = Span::ms(250);
  slo.tbt = Span::us(12'500);
  for (const bool varies : {false, true}) {
    slo.ttft_varies = varies;
    slo.ttft_of_answers = varies;
    slo.tbt_of_answers = varies;
    const auto read = parse_slo(slo_text(slo));
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(*read, slo);
  }
  EXPECT_EQ(slo_text({}), "{}");
}

TEST(SloJson, NamesWhatItDoesNotTake) {
  for (const char* text : {R"({"ttft_ms": -1})", R"({"ttft_ms": "250"})", R"({"ttft_varies": "yes"})",
                           R"({"ttft_varies": false})", R"({"ttft": 250})", "[]"}) {
    EXPECT_FALSE(parse_slo(text)) << text;
  }
  EXPECT_NE(parse_slo(R"({"ttft_varies": 1})").error().message().find("ttft_varies"), std::string::npos);
}

}  // namespace
}  // namespace wattle::journal
