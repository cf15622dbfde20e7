#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

namespace wattle {
namespace {

/// No file may become longer than that, as on a disk that is full.
class Limit {
 public:
  explicit Limit(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~Limit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  rlimit before_{};
};

class ReplacedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = "/tmp/wattle-file-test-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name) const { return folder_ + "/" + name; }
  [[nodiscard]] int files() const {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::string folder_;
};

TEST_F(ReplacedFile, IsTheNewOneOrTheOldOne) {
  ASSERT_TRUE(replace_file(path("a"), "old"));
  {
    const Limit full(100);
    const auto done = replace_file(path("a"), std::string(200, 'x'));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().where, path("a"));
    EXPECT_FALSE(replace_file(path("b"), std::string(200, 'x')));
  }
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(files(), 1) << "nothing is left of what was not written";
  ASSERT_TRUE(replace_file(path("a"), "new"));
  EXPECT_EQ(read_file(path("a")), "new");
}

TEST_F(ReplacedFile, IsWhereALinkLeadsAndMayBeNoFile) {
  ASSERT_TRUE(write_file(path("a"), "old"));
  std::filesystem::create_symlink("a", path("link"));
  ASSERT_TRUE(replace_file(path("link"), "new"));
  EXPECT_EQ(read_file(path("a")), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_TRUE(replace_file("/dev/null", "x"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_FALSE(replace_file(folder_, "x")) << "a folder";
}

}  // namespace
}  // namespace wattle
