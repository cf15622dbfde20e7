#include "planner/engine_command.h"

#include <gtest/gtest.h>

namespace wattle::planner {
namespace {

using Words = std::vector<std::string>;

const Words kOne{"mock-engine", "--json", "--tp", "1", "--load-s", "0", "--block-size", "16"};

TEST(EngineCommand, WhatCountsForTheStartAloneIsNoDifference) {
  EXPECT_EQ(differences(kOne, kOne), "");
  EXPECT_EQ(differences(kOne, Words{"mock-engine", "--json", "--tp", "1", "--load-s", "30", "--block-size", "16"}), "");
  EXPECT_EQ(differences(kOne, Words{"mock-engine", "--json", "--block-size", "16", "--tp", "1", "--load-s", "0"}), "");
}

TEST(EngineCommand, SaysWhichFlagsDiffer) {
  EXPECT_EQ(differences(kOne, Words{"mock-engine", "--json", "--tp", "2", "--load-s", "0", "--block-size", "16"}),
            "--tp 1 instead of 2");
  EXPECT_EQ(differences(kOne, Words{"mock-engine", "--json", "--tp", "1", "--max-num-seqs", "-2"}),
            "--max-num-seqs -2 is new, --block-size 16 is no more");
  EXPECT_NE(differences(kOne, Words{"mock-engine", "--tp", "1", "--block-size", "16"}), "");
  EXPECT_NE(differences({}, kOne), "");
}

}  // namespace
}  // namespace wattle::planner
