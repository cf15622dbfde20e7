#include "base/file_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

namespace wattle {
namespace {

TEST(FileLock, OneHolderAtATime) {
  const std::string path =
      (std::filesystem::path(testing::TempDir()) / ("wattle_lock_" + std::to_string(::getpid()))).string();
  std::optional<Result<FileLock>> first(FileLock::take(path, "somebody has it", 0));
  ASSERT_TRUE(*first) << first->error().message();
  const auto second = FileLock::take(path, "somebody has it", 0);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message(), path + ": somebody has it");
  FileLock moved = std::move(**first);
  first.reset();
  EXPECT_FALSE(FileLock::take(path, "somebody has it", 0)) << "it moved with its lock";
  { const FileLock gone = std::move(moved); }
  EXPECT_TRUE(FileLock::take(path, "somebody has it", 0));
  std::filesystem::remove(path);
  const auto nowhere = FileLock::take(path + "/lock", "", 0);
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message().find("cannot be created"), std::string::npos);
}

}  // namespace
}  // namespace wattle
