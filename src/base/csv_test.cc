#include "base/csv.h"

#include <gtest/gtest.h>

#include <array>

namespace wattle {

namespace {
constexpr std::array<std::string_view, 2> kColumns = {"b", "a"};

CsvReader must_open(std::string_view text) {
  auto csv = CsvReader::open(text, "t.csv", kColumns);
  EXPECT_TRUE(csv.has_value()) << csv.error().message();
  return std::move(*csv);
}

std::string open_error(std::string_view text) {
  const auto csv = CsvReader::open(text, "t.csv", kColumns);
  EXPECT_FALSE(csv.has_value());
  return csv ? "" : csv.error().message();
}
}  // namespace

TEST(Csv, FindsColumnsByNameWhateverTheirOrder) {
  auto csv = must_open("a,x,b\n1,2,3\n4,5,6\n");
  ASSERT_TRUE(*csv.next());
  EXPECT_EQ(csv.field(0), "3");
  EXPECT_EQ(csv.field(1), "1");
  EXPECT_EQ(csv.where(), "t.csv:2");
  ASSERT_TRUE(*csv.next());
  EXPECT_EQ(csv.whole(0, 0, 10), 6);
  EXPECT_FALSE(*csv.next());
}

TEST(Csv, AcceptsByteOrderMarkCrlfQuotesBlankLinesAndNoFinalNewline) {
  auto csv = must_open("\xef\xbb\xbf\"a\",\"b\"\r\n\r\n\"1,\"\"5\"\"\" , 2\r\n\"\",\"7\"");
  ASSERT_TRUE(*csv.next());
  EXPECT_EQ(csv.field(1), "1,\"5\"");
  EXPECT_EQ(csv.field(0), "2");
  EXPECT_EQ(csv.line(), 3);
  ASSERT_TRUE(*csv.next());
  EXPECT_EQ(csv.field(1), "");
  EXPECT_EQ(csv.field(0), "7");
  EXPECT_FALSE(*csv.next());
}

TEST(Csv, AcceptsAlternativeNames) {
  static constexpr std::array<std::string_view, 1> kEither = {"one|uno"};
  auto csv = CsvReader::open("x,uno\n1,2\n", "t.csv", kEither);
  ASSERT_TRUE(csv.has_value());
  ASSERT_TRUE(*csv->next());
  EXPECT_EQ(csv->field(0), "2");
  EXPECT_EQ(csv->column(0), "uno");
  EXPECT_FALSE(CsvReader::open("one,uno\n1,2\n", "t.csv", kEither).has_value());
  EXPECT_FALSE(CsvReader::open("on,un\n1,2\n", "t.csv", kEither).has_value());
}

TEST(Csv, ErrorsNameFileLineAndRemedy) {
  EXPECT_EQ(open_error("\x1f\x8b\x08"), "t.csv: is compressed (gzip, zstd or zip); unpack it first");
  EXPECT_EQ(open_error(""), "t.csv: is empty; expected a header line with b,a");
  EXPECT_EQ(open_error("\r\n\r\n"), "t.csv: is empty; expected a header line with b,a");
  EXPECT_EQ(open_error("a,c\n"), "t.csv:1: the header has no column 'b'; it has 'a,c'");
  EXPECT_EQ(open_error("a,b,a\n"), "t.csv:1: the header has column 'a' twice; keep one");

  auto short_row = must_open("a,b\n1,2\n3");
  ASSERT_TRUE(*short_row.next());
  auto error = short_row.next();
  ASSERT_FALSE(error.has_value());
  EXPECT_EQ(error.error().message(),
            "t.csv:3: has 1 field where the header has 2; is the file cut short? Remove or complete its last line");

  auto open_quote = must_open("a,b\n\"1,2\n3,4\n");
  error = open_quote.next();
  ASSERT_FALSE(error.has_value());
  EXPECT_EQ(error.error().where, "t.csv:2");

  auto after_quote = must_open("a,b\n\"1\"2,2\n");
  EXPECT_FALSE(after_quote.next().has_value());
}

TEST(Csv, NumbersAreStrict) {
  for (const char* bad :
       {"", "x", "1.5", "1.05", ".0", "1e3", "+1", "-1", "11", "99999999999999999999", "1 2", "0x1", "nan"}) {
    const std::string text = "a,b\n0," + std::string(bad) + "\n";
    auto csv = must_open(text);
    ASSERT_TRUE(*csv.next());
    const auto value = csv.whole(0, 0, 10);
    ASSERT_FALSE(value.has_value()) << bad;
    EXPECT_EQ(value.error().where, "t.csv:2");
    EXPECT_EQ(value.error().what, "b is '" + std::string(bad) + "'; it must be a whole number from 0 to 10");
  }
  auto of_data_frame = must_open("a,b\n0,7.0\n");
  ASSERT_TRUE(*of_data_frame.next());
  EXPECT_EQ(of_data_frame.whole(0, 0, 10), 7);
  for (const char* bad : {"", "x", "nan", "inf", "-inf", "1e999", "-0.5", "10.5", "1,5"}) {
    const std::string text = "a,b\n0,\"" + std::string(bad) + "\"\n";
    auto csv = must_open(text);
    ASSERT_TRUE(*csv.next());
    EXPECT_FALSE(csv.number(0, 0.0, 10.0).has_value()) << bad;
  }
  auto csv = must_open("a,b\n0,2.5e-1\n");
  ASSERT_TRUE(*csv.next());
  EXPECT_EQ(csv.number(0, 0.0, 10.0), 0.25);
}

}  // namespace wattle
