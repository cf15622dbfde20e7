#include "launch/child.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>

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
  /// A child of a planner that has died: its id is in the file after a while, then it has no arguments for a while, as
  /// within exec, and its own command runs a while later.
  void start() {
    pid = fork();
    if (pid != 0) return;
    usleep(50'000);
    std::ofstream(trace.pid_file) << getpid() << std::endl;
    unmap_arguments();
    usleep(100'000);
    const char* const nothing[] = {nullptr};
    execle("/bin/sleep", "sleep", "31.5", nullptr, nothing);
    _exit(127);
  }
  /// Of this process: /proc/PID/cmdline is empty from now on.
  static void unmap_arguments() {
    std::ifstream in("/proc/self/stat");
    std::string stat{std::istreambuf_iterator<char>(in), {}};
    std::istringstream fields(stat.substr(stat.rfind(')') + 2));
    constexpr int kBeforeArguments = 45;  // of those behind the name, as proc(5) has them
    std::string skipped;
    for (int i = 0; i < kBeforeArguments; ++i) fields >> skipped;
    std::uintptr_t begin = 0, end = 0;
    fields >> begin >> end;
    const auto page = static_cast<std::uintptr_t>(getpagesize());
    begin -= begin % page;
    if (munmap(reinterpret_cast<void*>(begin), end - begin) != 0) _exit(126);  // NOLINT: an address from the kernel
  }
  [[nodiscard]] bool without_arguments() const {
    std::ifstream in("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
    return in.peek() == std::ifstream::traits_type::eof();
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
  while (!without_arguments()) usleep(1'000);
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
