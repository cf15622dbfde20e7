#include "calibrate/profile_repository.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace wattle::calibrate {
namespace {

namespace fs = std::filesystem;

plan::LoadTable small_table(double watts) {
  plan::LoadTable table;
  table.provenance = {"made by: a test"};
  table.llm = "llama";
  table.gpu = "h100";
  plan::ProfiledClass one{"SS", 100, 50, {Span::ms(250), Span::ms(100)}, {}};
  for (const int tp : {2, 4}) {
    one.profiles.push_back(
        {tp,
         MegaHertz(1980),
         {{0.0, Watts(watts), Span::ms(50), Span::ms(20)}, {2.5, Watts(2 * watts), Span::us(70123), Span::ms(30)}}});
  }
  table.classes = {one};
  return table;
}

class Repository : public ::testing::Test {
 protected:
  Repository() : root_(fs::temp_directory_path() / ("wattle-profiles-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~Repository() override { fs::remove_all(root_); }
  [[nodiscard]] std::string dir(const char* name) const { return (root_ / name).string(); }
  void change(const std::string& path) const {
    auto text = *read_file(path);
    text[text.size() - 3] = text[text.size() - 3] == '1' ? '2' : '1';
    ASSERT_TRUE(write_file(path, text));
  }
  fs::path root_;
};

TEST_F(Repository, ServicesOfOneModelShareItsNewestProfile) {
  const ProfileRepository first(dir("shared"), dir("cache-a")), second(dir("shared"), dir("cache-b"));
  EXPECT_FALSE(first.find("llama@h100")->has_value());
  EXPECT_EQ(first.publish("llama@h100", small_table(100)).value(), 1);
  EXPECT_EQ((*second.find("llama@h100"))->table, small_table(100));
  EXPECT_EQ(second.publish("llama@h100", small_table(200)).value(), 2);
  const auto newest = first.find("llama@h100").value().value();
  EXPECT_EQ(newest.version, 2);
  EXPECT_EQ(newest.table, small_table(200));
  EXPECT_EQ(first.find("llama@h100", 1).value().value().table, small_table(100));
  EXPECT_FALSE(first.find("llama@h100", 3).has_value());
  EXPECT_FALSE(first.find("llama@h1")->has_value());  // not a prefix of another's name
}

TEST_F(Repository, TheCacheServesWhenTheSharedDirectoryIsGone) {
  const ProfileRepository both(dir("shared"), dir("cache"));
  ASSERT_TRUE(ProfileRepository(dir("shared"), "").publish("m", small_table(100)));
  ASSERT_TRUE(both.find("m")->has_value());
  fs::remove_all(dir("shared"));
  EXPECT_EQ((*both.find("m"))->table, small_table(100));
  change(dir("cache") + "/m.v1.profile");
  EXPECT_FALSE(both.find("m").has_value());
}

TEST_F(Repository, ADamagedCopyIsFetchedAgainADamagedOriginalIsRefused) {
  const ProfileRepository both(dir("shared"), dir("cache"));
  ASSERT_TRUE(both.publish("m", small_table(100)));
  change(dir("cache") + "/m.v1.profile");
  const auto again = both.find("m").value().value();
  EXPECT_EQ(again.table, small_table(100));
  EXPECT_EQ(read_file(dir("cache") + "/m.v1.profile").value(), read_file(dir("shared") + "/m.v1.profile").value());
  change(dir("shared") + "/m.v1.profile");
  const auto refused = both.find("m");
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("checksum"), std::string::npos) << refused.error().message();
}

/// A new or different shared directory may have the same version numbers: the shared directory takes precedence.
TEST_F(Repository, TheCacheOfAnotherDirectoryIsNotBelieved) {
  const ProfileRepository old(dir("old"), dir("cache")), fresh(dir("fresh"), dir("cache"));
  ASSERT_EQ(old.publish("m", small_table(100)).value(), 1);
  ASSERT_EQ(fresh.publish("m", small_table(200)).value(), 1);
  EXPECT_EQ((*fresh.find("m"))->table, small_table(200));
  EXPECT_EQ((*old.find("m"))->table, small_table(100));
  fs::remove_all(dir("old"));
  EXPECT_EQ((*old.find("m"))->table, small_table(100)) << "from the cache alone";
}

TEST_F(Repository, NamesAndHolesAreRefused) {
  const ProfileRepository repository(dir("shared"), "");
  EXPECT_FALSE(repository.publish("../m", small_table(1)).has_value());
  EXPECT_FALSE(repository.find("a/b").has_value());
  auto table = small_table(1);
  table.classes.push_back(table.classes[0]);
  table.classes[1].name = "SM";
  table.classes[1].profiles.pop_back();
  const auto refused = repository.publish("m", table);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("hole: SM at TP4"), std::string::npos) << refused.error().message();
}

}  // namespace
}  // namespace wattle::calibrate
