#include "predict/step_profile.h"

#include <gtest/gtest.h>

namespace wattle::predict {
namespace {

constexpr const char* kHeader = "phase,clock_mhz,requests,prompt_tokens,kv_tokens,steps,step_ms,power_w,reached_mhz\n";
constexpr const char* kGood =
    "# engine: http://127.0.0.1:8000\n"
    "# date: today\n"
    "phase,clock_mhz,requests,prompt_tokens,kv_tokens,steps,step_ms,power_w,reached_mhz\n"
    "idle,1005,0,0,0,0,0,61.5,\n"
    "prefill,1005,1,512,0,9,50.25,301.125,1005\n"
    "decode,1005,8,0,1024,100,11.000001,,\n"
    "decode,1410,8,0,1024,100,9.5,250,1395\n";

TEST(StepProfile, ReadsWhatItWrites) {
  const auto profile = parse_step_profile(kGood, "p.csv");
  ASSERT_TRUE(profile) << profile.error().message();
  EXPECT_EQ(profile->provenance, (std::vector<std::string>{"engine: http://127.0.0.1:8000", "date: today"}));
  ASSERT_EQ(profile->rows.size(), 4U);
  EXPECT_EQ(profile->rows[0].power, Milliwatts(61'500));
  EXPECT_EQ(profile->rows[1].prompt_tokens, 512);
  EXPECT_EQ(profile->rows[2].step, Span(11'000'001));
  EXPECT_FALSE(profile->rows[2].power);
  EXPECT_EQ(profile->rows[3].reached, MegaHertz(1395));
  const std::string written = to_csv(*profile);
  const auto again = parse_step_profile(written, "again");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(to_csv(*again), written);
}

/// The message of a file with the good header and these rows.
std::string refusal(const std::string& rows, const std::string& header = kHeader) {
  const auto profile = parse_step_profile(header + rows, "p.csv");
  return profile ? "accepted" : profile.error().message();
}
bool says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (message.find(part) == std::string::npos) return false;
  }
  return true;
}

TEST(StepProfile, AMissingColumnIsRefusedByName) {
  const auto message = refusal("decode,1005,8,0,1024,100,11,\n",
                               "phase,clock_mhz,requests,prompt_tokens,kv_tokens,steps,step_ms,power_w\n");
  EXPECT_TRUE(says(message, {"p.csv:1", "no column 'reached_mhz'"})) << message;
}

TEST(StepProfile, ClocksThatFallAreRefusedByRowAndColumn) {
  const auto message = refusal("decode,1410,8,0,1024,100,9.5,,\ndecode,1005,8,0,1024,100,11,,\n");
  EXPECT_TRUE(says(message, {"p.csv:3", "clock_mhz is '1005'", "1410"})) << message;
}

TEST(StepProfile, ARowTwiceIsRefusedWithBothLines) {
  const auto message = refusal("decode,1005,8,0,1024,100,9.5,,\ndecode,1005,8,0,1024,50,9.6,,\n");
  EXPECT_TRUE(says(message, {"p.csv:3", "line 2"})) << message;
}

TEST(StepProfile, UnitsOutOfRangeAreRefusedByRowAndColumn) {
  // seconds, Hz, GHz, mW, and a negative time
  EXPECT_TRUE(says(refusal("decode,1005,8,0,1024,100,0.0095,,\n"), {"p.csv:2", "step_ms is '0.0095'", "0.01"}));
  EXPECT_TRUE(says(refusal("decode,1005000000,8,0,1024,100,9.5,,\n"), {"p.csv:2", "clock_mhz"}));
  EXPECT_TRUE(says(refusal("decode,1.005,8,0,1024,100,9.5,,\n"), {"p.csv:2", "clock_mhz", "whole number"}));
  EXPECT_TRUE(says(refusal("decode,1005,8,0,1024,100,9.5,250000,\n"), {"p.csv:2", "power_w"}));
  EXPECT_TRUE(says(refusal("decode,1005,8,0,1024,100,-9.5,,\n"), {"p.csv:2", "step_ms"}));
}

TEST(StepProfile, NotANumberIsRefusedByRowAndColumn) {
  EXPECT_TRUE(says(refusal("decode,1005,8,0,1024,100,nan,,\n"), {"p.csv:2", "step_ms is 'nan'"}));
  EXPECT_TRUE(says(refusal("decode,1005,8,0,1024,100,9.5,inf,\n"), {"p.csv:2", "power_w is 'inf'"}));
  EXPECT_TRUE(says(refusal("decode,nan,8,0,1024,100,9.5,,\n"), {"p.csv:2", "clock_mhz is 'nan'"}));
}

TEST(StepProfile, AnEmptyFileOrOneWithoutRowsIsRefused) {
  EXPECT_TRUE(says(refusal("", ""), {"p.csv", "empty"}));
  EXPECT_TRUE(says(refusal("", "# only: provenance\n"), {"p.csv", "empty"}));
  EXPECT_TRUE(says(refusal(""), {"p.csv", "no rows"}));
}

TEST(StepProfile, ARowMustFitItsPhase) {
  EXPECT_TRUE(says(refusal("idle,1005,0,0,0,0,0,,\n"), {"p.csv:2", "power_w"}));
  EXPECT_TRUE(says(refusal("idle,1005,1,0,0,0,0,60,\n"), {"p.csv:2", "requests"}));
  EXPECT_TRUE(says(refusal("decode,1005,8,64,1024,100,9.5,,\n"), {"p.csv:2", "prompt_tokens"}));
  EXPECT_TRUE(says(refusal("decode,1005,8,0,7,100,9.5,,\n"), {"p.csv:2", "kv_tokens"}));
  EXPECT_TRUE(says(refusal("prefill,1005,8,7,0,100,9.5,,\n"), {"p.csv:2", "prompt_tokens"}));
  EXPECT_TRUE(says(refusal("mixed,1005,8,7,0,100,9.5,,\n"), {"p.csv:2", "phase is 'mixed'"}));
}

}  // namespace
}  // namespace wattle::predict
