// A published value next to ours, as text, JSON and HTML.
#include "reproduce/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "reproduce/freesh.h"
#include "reproduce/freesh_runs.h"

namespace wattle::reproduce {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Section section_of_four() {
  Section section;
  section.source = "Table 5";
  section.rows = {{"table5/SS/longest_wait", "s", 2.0, 1.5},
                  {"zero/published", "s", 0.0, 0.1475},
                  {"zero/both", "s", 0.0, 0.0},
                  {"none/ours", "Wh", 3.0, kNone}};
  return section;
}

TEST(Evaluation, NothingIsRelativeToAPublishedZero) {
  const auto rows = section_of_four().rows;
  EXPECT_DOUBLE_EQ(rows[0].relative(), -0.25);
  EXPECT_TRUE(std::isnan(rows[1].relative()));
  EXPECT_DOUBLE_EQ(rows[1].difference(), 0.1475);
  EXPECT_EQ(rows[2].relative(), 0.0);
  EXPECT_TRUE(std::isnan(rows[3].relative()));
  EXPECT_TRUE(std::isnan(Row({"x", "s", std::nullopt, 1.0}).relative()));
}

TEST(Evaluation, WhatHasNoValueIsADash) {
  testing::internal::CaptureStdout();
  print(section_of_four());
  const std::string text = testing::internal::GetCapturedStdout();
  const auto line = [&](const std::string& id) {
    const std::size_t at = text.find(id);
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_TRUE(line("table5/SS/longest_wait").ends_with("    -0.500   -25.0%")) << text;
  EXPECT_TRUE(line("zero/published").ends_with("0.000      0.147    +0.147        -")) << text;
  EXPECT_TRUE(line("zero/both").ends_with("+0.0%")) << text;
  EXPECT_TRUE(line("none/ours").ends_with("3.000          -         -        -")) << text;
  EXPECT_EQ(text.find("nan"), std::string::npos);

  nlohmann::ordered_json json;
  append(section_of_four(), json);
  EXPECT_TRUE(json["rows"][1]["relative"].is_null());
  EXPECT_DOUBLE_EQ(json["rows"][1]["difference"], 0.1475);
  for (const char* key : {"ours", "difference", "relative"}) EXPECT_TRUE(json["rows"][3][key].is_null()) << key;
}

TEST(Evaluation, ThePageSuitsAPhone) {
  const Section section = section_of_four();
  const std::string page = html("freesh", {&section, 1});
  EXPECT_NE(page.find("name=\"viewport\" content=\"width=device-width"), std::string::npos);
  EXPECT_NE(page.find("table5/<wbr/>SS/<wbr/>longest_<wbr/>wait</th><td class=\"unit\">s</td>"), std::string::npos)
      << "a row's name may break, a unit does not";
  EXPECT_NE(page.find("<td>0</td><td>0.1475</td><td>–</td>"), std::string::npos);
  EXPECT_NE(page.find("<td>3.000</td><td>–</td><td>–</td>"), std::string::npos);
}

/// Rows of one decrease but another factor are of the same run only as long as the clock never rises.
TEST(Evaluation, MiadsNoteSaysWhetherItsFactorIsTried) {
  const std::vector<std::pair<double, double>> clocks{{0.0, 1410.0}, {1.0, 1310.0}, {2.0, 1410.0}, {3.0, 1310.0}};
  EXPECT_EQ(freesh::rises(clocks), 1);
  const auto section = freesh::miad();
  ASSERT_TRUE(section) << section.error().message();
  const auto ours = [&](const std::string& id) {
    const auto row = std::ranges::find(section->rows, id, &Row::id);
    return row == section->rows.end() ? kNone : row->ours;
  };
  const bool tried = section->note.find("the factor is not tried") == std::string::npos;
  EXPECT_NE(section->note.find("Times that MIAD raised the clock: M1.5_d10 "), std::string::npos) << section->note;
  for (const char* step : {"d10", "d100"}) {
    const auto energy = [&](const char* factor) {
      return ours(std::string("table10/") + factor + "_" + step + "/energy");
    };
    EXPECT_GT(energy("M1.5"), 0.0);
    EXPECT_EQ(energy("M1.5") == energy("M2.0"), !tried) << step;
  }
}

}  // namespace
}  // namespace wattle::reproduce
