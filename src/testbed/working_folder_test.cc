#include "testbed/working_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/file.h"

namespace wattle::testbed {
namespace {

namespace fs = std::filesystem;

class WorkingFolders : public testing::Test {
 protected:
  WorkingFolders() : parent_(fs::path(testing::TempDir()) / ("folders-" + std::to_string(getpid()))) {
    fs::create_directories(parent_);
  }
  ~WorkingFolders() override { fs::remove_all(parent_); }

  fs::path parent_;
};

/// A folder whose owner was killed, with a file in it.
fs::path left_by_a_killed_owner(const fs::path& parent) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    auto folder = WorkingFolder::make(parent, "up");
    const std::string path = folder ? folder->path().string() : "none";
    const auto said = write(ends[1], path.data(), path.size());
    while (said >= 0) pause();
    return {};  // nobody reads
  }
  char path[4096];
  const auto got = read(ends[0], path, sizeof path);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  fs::path folder(std::string(path, static_cast<std::size_t>(std::max<ssize_t>(0, got))));
  EXPECT_TRUE(write_file((folder / "engine.log").string(), "a line\n"));
  return folder;
}

TEST_F(WorkingFolders, AreRemovedOnceTheirOwnerIsDeadAndOnlyThen) {
  const fs::path left = left_by_a_killed_owner(parent_);
  ASSERT_TRUE(fs::exists(left / "engine.log"));
  fs::create_directories(parent_ / "up-strange");  // not created by us
  fs::create_directories(parent_ / "other");
  {
    const auto mine = WorkingFolder::make(parent_, "up");
    ASSERT_TRUE(mine) << mine.error().message();
    EXPECT_FALSE(fs::exists(left));
    const auto another = WorkingFolder::make(parent_, "up");
    ASSERT_TRUE(another) << another.error().message();
    EXPECT_TRUE(fs::exists(mine->path()));
    EXPECT_NE(mine->path(), another->path());
  }
  EXPECT_TRUE(fs::exists(parent_ / "up-strange"));
  EXPECT_EQ(std::distance(fs::directory_iterator(parent_), fs::directory_iterator()), 2);
}

TEST_F(WorkingFolders, SayWhereTheyCannotBeMade) {
  const auto made = WorkingFolder::make(parent_ / "absent", "up");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("TMPDIR"), std::string::npos) << made.error().message();
}

}  // namespace
}  // namespace wattle::testbed
