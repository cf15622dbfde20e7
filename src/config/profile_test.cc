#include "config/profile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/step_model.h"

namespace wattle::config {
namespace {

LoadedProfile example() {
  LoadedProfile p;
  p.provenance = "a test";
  return p;
}

TEST(Profile, what_is_written_is_read_back) {
  LoadedProfile p = example();
  p.factors.busy_w = 123.0;
  p.factors.kernel_ramp_s = 2.5e-6;
  const auto read = profile_from_text(to_text(p, {"a note"}), "profiles/x1.toml");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->factors.gpu, "x1");
  EXPECT_EQ(read->provenance, "a test");
  for (const engine::ProfileField& field : engine::profile_fields()) {
    EXPECT_DOUBLE_EQ(read->factors.*(field.member), p.factors.*(field.member)) << field.key;
  }
}

TEST(Profile, missing_unknown_and_unphysical_factors_are_refused_with_their_place) {
  std::string text = to_text(example(), {});
  const auto missing = profile_from_text("provenance = \"x\"\n", "p.toml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().where.rfind("p.toml:1", 0), 0U) << missing.error().message();

  const auto unknown = profile_from_text(text + "magic = 1.0\n", "p.toml");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message().find("magic"), std::string::npos);

  const auto at = text.find("tensor_efficiency = ");
  text.replace(at, std::string("tensor_efficiency = ").size(), "tensor_efficiency = 1");
  const auto out_of_range = profile_from_text(text, "p.toml");
  ASSERT_FALSE(out_of_range) << "10 times the peak rate";
  EXPECT_NE(out_of_range.error().message().find("tensor_efficiency"), std::string::npos);
}

TEST(Profile, every_shipped_profile_belongs_to_a_shipped_gpu_and_serves_a_model) {
  const Project project({WATTLE_SOURCE_DIR});
  const auto names = project.names(Project::Kind::Profile);
  EXPECT_GE(names.size(), 2U);
  const auto gpus = project.names(Project::Kind::Gpu);
  for (const std::string& name : gpus) {
    const auto profile = profile_of(name, project);
    ASSERT_TRUE(profile) << profile.error().message();
  }
  for (const std::string& name : names) EXPECT_NE(std::ranges::find(gpus, name), gpus.end()) << name;
}

}  // namespace
}  // namespace wattle::config
