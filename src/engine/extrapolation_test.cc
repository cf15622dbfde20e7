#include "engine/extrapolation.h"

#include <gtest/gtest.h>

#include "engine/step_model.h"

namespace wattle::engine {
namespace {

HardwareProfile measured() {
  HardwareProfile profile;
  profile.gpu = "a100-80g";
  profile.measured_requests = 128;
  profile.measured_context_tokens = 4096;
  profile.measured_step_tokens = 8192;
  profile.measured_tensor_parallel = 2;
  profile.measured_clock_low_mhz = 1005;
  profile.measured_clock_high_mhz = 1410;
  return profile;
}

TEST(Extrapolation, inside_says_nothing) {
  AskedRange asked;
  EXPECT_TRUE(extrapolations(measured(), 8, asked).empty()) << "nothing was asked";
  asked.take(128, 128 * 4000, 8192, 1005);
  EXPECT_TRUE(extrapolations(measured(), 2, asked).empty());
}

TEST(Extrapolation, every_quantity_outside_is_named) {
  AskedRange asked;
  asked.take(129, 129 * 5000, 8193, 210);
  const auto found = extrapolations(measured(), 4, asked);
  ASSERT_EQ(found.size(), 5U);
  EXPECT_NE(found[0].find("batch of 129, measured up to 128"), std::string::npos) << found[0];
  EXPECT_NE(found[4].find("210 MHz, measured down to 1005"), std::string::npos) << found[4];
}

TEST(Extrapolation, a_gpu_without_measurement_says_so_once) {
  HardwareProfile relative;
  relative.gpu = "l40s";
  AskedRange asked;
  asked.take(1, 100, 0, 1410);
  const auto found = extrapolations(relative, 1, asked);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find("no measurement"), std::string::npos);
}

TEST(Extrapolation, a_step_model_remembers_what_it_was_asked_until_it_is_to_forget) {
  GpuSpec gpu;
  gpu.name = "a100-80g";
  const auto model = StepModel::make(gpu, LlmSpec{}, 1, measured(), {});
  ASSERT_TRUE(model) << model.error().message();
  (void)model->decode(64, 64 * 500, MegaHertz(1410));
  EXPECT_TRUE(model->extrapolated().empty());
  (void)model->decode(256, 256 * 500, MegaHertz(1410));
  EXPECT_EQ(model->extrapolated().size(), 1U);
  model->forget_asked();
  EXPECT_TRUE(model->extrapolated().empty());
}

}  // namespace
}  // namespace wattle::engine
