#include "calibrate/model_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace wattle::calibrate {
namespace {

using Models = std::vector<std::string>;

class ModelCacheTest : public ::testing::Test {
 protected:
  ModelCacheTest() { std::filesystem::remove_all(folder_); }
  ~ModelCacheTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("wattle-model-cache-" + std::to_string(getpid()));
  ModelCache cache_{(folder_ / "below").string()};
  Models models_{std::string("{\0\n7\n", 5), "", "a model"};

  [[nodiscard]] std::string file() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "below")) return entry.path().string();
    return "";
  }
};

TEST_F(ModelCacheTest, GivesBackWhatWasKept) {
  EXPECT_FALSE(cache_.find(7));
  cache_.keep(7, models_);
  EXPECT_EQ(cache_.find(7), models_);
  EXPECT_FALSE(cache_.find(8));
  cache_.keep(7, Models{"other"});
  EXPECT_EQ(ModelCache((folder_ / "below").string()).find(7), Models{"other"});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "below"), {}), 1) << "no unfinished file stays";
}

TEST_F(ModelCacheTest, AFileThatWasCutOffOrChangedIsNotBelieved) {
  cache_.keep(7, models_);
  const std::string whole = read_file(file()).value();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    ASSERT_TRUE(write_file(file(), whole.substr(0, n)));
    EXPECT_FALSE(cache_.find(7)) << "cut off at " << n;
    std::string changed = whole;
    changed[n] = static_cast<char>(changed[n] ^ 1);
    ASSERT_TRUE(write_file(file(), changed));
    EXPECT_FALSE(cache_.find(7)) << "changed at " << n;
  }
  ASSERT_TRUE(write_file(file(), whole));
  EXPECT_EQ(cache_.find(7), models_);
}

TEST_F(ModelCacheTest, WithoutAFolderNothingIsKept) {
  const ModelCache none("");
  none.keep(7, models_);
  EXPECT_FALSE(none.find(7));
  const ModelCache unwritable("/proc/no/such/place");
  unwritable.keep(7, models_);
  EXPECT_FALSE(unwritable.find(7));
}

}  // namespace
}  // namespace wattle::calibrate
