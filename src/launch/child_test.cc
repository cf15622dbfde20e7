#include "launch/child.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace wattle::launch {
namespace {

struct LeftBehind : testing::Test {
  void SetUp() override {
    std::filesystem::create_directories(folder);
    std::ofstream(trace.pid_file).flush();  // a predecessor makes it before it forks
  }
  void TearDown() override {
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    std::filesystem::remove_all(folder);
  }
  /// A child of a planner that has died: its id is in the file after a while, and its own command runs a while later.
  void start() {
    pid = fork();
    if (pid != 0) return;
    usleep(50'000);
    std::ofstream(trace.pid_file) << getpid() << std::endl;
    usleep(100'000);
    execl("/bin/sleep", "sleep", "31.5", nullptr);
    _exit(127);
  }
  [[nodiscard]] std::optional<Child> adopt(const std::vector<std::string>& arguments) const {
    return Child::adopt("engine", arguments, folder + "/log", trace);
  }

  std::string folder = testing::TempDir() + "left-behind-" + std::to_string(getpid());
  Child::Trace trace{folder + "/pid", folder + "/out"};
  pid_t pid = -1;
};

TEST_F(LeftBehind, IsAdoptedEvenWhereItHasHardlyBegun) {
  start();
  auto child = adopt({"31.5"});
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(child->pid(), pid);
  EXPECT_TRUE(child->running());
  child->leave();
}

TEST(Child, SaysWhatItEndedBy) {
  const std::string log = testing::TempDir() + "child-end-" + std::to_string(getpid()) + ".log";
  auto child = Child::start("c", {"--gtest_list_tests"}, log);  // this program
  ASSERT_TRUE(child);
  while (child->running()) usleep(10'000);
  const std::string end = child->end();
  EXPECT_NE(end.find("exited with code 0"), std::string::npos) << end;
  EXPECT_NE(end.find("see " + log), std::string::npos) << end;
  std::filesystem::remove(log);
}

TEST_F(LeftBehind, OneThatRunsSomethingElseIsNot) {
  start();
  EXPECT_FALSE(adopt({"32.5"}).has_value());
}

TEST_F(LeftBehind, NorOneThatNeverWroteItsId) { EXPECT_FALSE(adopt({"31.5"}).has_value()); }

TEST_F(LeftBehind, NorOneThatHasEnded) {
  pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  std::ofstream(trace.pid_file) << pid << std::endl;
  pid = -1;
  EXPECT_FALSE(adopt({"31.5"}).has_value());
}

}  // namespace
}  // namespace wattle::launch
