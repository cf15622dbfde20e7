// Tests run without the user's cache (WATTLE_CACHE=none), and measure the same load profiles again and again: here they
// share a folder that lasts as long as the process.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace wattle::experiment {
namespace {

class OwnCache final : public testing::Environment {
 public:
  void SetUp() override {
    std::string made = (std::filesystem::temp_directory_path() / "wattle-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(made.data()), nullptr);
    folder_ = made;
    ASSERT_EQ(setenv("WATTLE_CACHE", folder_.c_str(), 1), 0);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  std::filesystem::path folder_;
};

const testing::Environment* const kRegistered = testing::AddGlobalTestEnvironment(new OwnCache);

}  // namespace
}  // namespace wattle::experiment
