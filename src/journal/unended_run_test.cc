// Files of a live run that never ended, when the next one begins in its folder.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "journal/run_directory.h"

namespace wattle::journal {
namespace {

namespace fs = std::filesystem;

class UnendedRun : public testing::Test {
 protected:
  UnendedRun()
      : directory_(fs::path(testing::TempDir()) / (std::string("wattle_unended_") + std::to_string(::getpid()))) {}
  ~UnendedRun() override { fs::remove_all(directory_); }

  /// A run with this number of requests; `ends`: in order.
  void run(int requests, bool ends) {
    auto writer = RunWriter::open(directory_.string(), RunFacts(), {.trace = false});
    ASSERT_TRUE(writer) << writer.error().message();
    for (int i = 0; i < requests; ++i) {
      Outcome outcome;
      outcome.request.id = RequestId(i);
      (*writer)->outcome(outcome);
    }
    RunSummary summary;
    summary.requests.arrived = requests;
    ASSERT_TRUE((*writer)->checkpoint(summary, {}));
    if (!ends) return;
    ASSERT_TRUE((*writer)->close(summary, {}));
  }
  [[nodiscard]] std::string set_aside() const { return set_aside_unended(directory_.string()).value(); }

  fs::path directory_;
};

TEST_F(UnendedRun, IsKeptWhereItCanBeRead) {
  EXPECT_EQ(set_aside(), "") << "there is nothing yet";
  for (int number = 1; number <= 3; ++number) {
    run(number, false);
    const std::string folder = (directory_ / ("unended-" + std::to_string(number))).string();
    ASSERT_EQ(set_aside(), folder);
    EXPECT_EQ(set_aside(), "") << "once";
    EXPECT_FALSE(fs::exists(directory_ / "requests.csv"));
    const auto kept = read_run(folder);
    ASSERT_TRUE(kept) << kept.error().message();
    EXPECT_FALSE(kept->ended);
    EXPECT_EQ(kept->summary.requests.arrived, number);
    const std::string rows = read_file(folder + "/requests.csv").value();
    EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), number + 1);
  }
}

TEST_F(UnendedRun, ItsFilesMayHaveGrownAndNoneMayHaveShrunk) {
  const std::string requests = (directory_ / "requests.csv").string();
  for (const bool ends : {false, true}) {
    run(2, ends);
    const auto kept = read_run(directory_.string());
    ASSERT_TRUE(kept) << kept.error().message();
    const std::string whole = read_file(requests).value();
    ASSERT_EQ(kept->bytes.size(), 3U) << "no trace is wanted";
    EXPECT_EQ(kept->bytes.at("requests.csv"), std::ssize(whole));
    EXPECT_EQ(parse_run(run_json(*kept), "run.json")->bytes, kept->bytes) << "written again, it keeps them";
    EXPECT_TRUE(check_sizes(directory_.string(), *kept));
    ASSERT_TRUE(write_file(requests, whole + "3,"));
    EXPECT_EQ(check_sizes(directory_.string(), *kept).has_value(), !ends);
    ASSERT_TRUE(write_file(requests, whole.substr(0, whole.size() - 5)));
    const auto cut = check_sizes(directory_.string(), *kept);
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().where, requests + ":3");
    fs::remove(requests);
    EXPECT_TRUE(check_sizes(directory_.string(), *kept)) << "its reader says so";
  }
}

TEST_F(UnendedRun, WhatEndedOrHoldsNothingIsReplaced) {
  run(2, true);
  EXPECT_EQ(set_aside(), "");
  run(0, false);  // a gateway that fails at its start is started again and again
  EXPECT_EQ(set_aside(), "");
  run(1, false);
  EXPECT_NE(set_aside(), "");
}

TEST_F(UnendedRun, AMoveThatIsCutShortGoesOn) {
  run(2, false);
  fs::create_directories(directory_ / "unended-1");
  fs::rename(directory_ / "decisions.jsonl", directory_ / "unended-1" / "decisions.jsonl");
  EXPECT_EQ(set_aside(), (directory_ / "unended-1").string());
  EXPECT_TRUE(fs::exists(directory_ / "unended-1" / "requests.csv"));
}

TEST_F(UnendedRun, IsNotErasedWhereItCannotBeMoved) {
  run(2, false);
  ASSERT_TRUE(write_file((directory_ / "unended-1").string(), "a file where the folder should be"));
  const auto moved = set_aside_unended(directory_.string());
  ASSERT_FALSE(moved);
  EXPECT_EQ(moved.error().kind, ErrorKind::External);
  EXPECT_TRUE(fs::exists(directory_ / "requests.csv"));
}

}  // namespace
}  // namespace wattle::journal
