#include "predict/host_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "predict/linear_fit.h"

namespace wattle::predict::host_line_test {
namespace {

/// Decode steps of an engine whose GPU takes 4 ms, 30 us a request and 40 ns a KV token at 1410 MHz, longer at lower
/// clocks, and whose host takes at least `host` meanwhile; the batch grid of a profile.
std::vector<StepSample> profile(const HostLine& host) {
  std::vector<StepSample> samples;
  for (const MegaHertz clock : {MegaHertz{1005}, MegaHertz{1200}, MegaHertz{1410}}) {
    const double slower = 1410.0 / clock.value();
    for (std::int32_t batch = 8; batch <= 256; batch += 8) {
      for (const std::int64_t kv : {8'000, 40'000, 100'000, 200'000, 300'000, 380'000}) {
        const double gpu = slower * (4e6 + 30e3 * batch) + 40.0 * static_cast<double>(kv);
        StepSample s;
        s.clock = clock;
        s.shape.decode_requests = batch;
        s.shape.decode_kv_tokens = kv;
        s.duration = Span(static_cast<std::int64_t>(std::max(gpu, host.ns + host.ns_per_request * batch)));
        samples.push_back(s);
      }
    }
  }
  return samples;
}

TEST(HostLine, IsFoundWhereNeitherClockNorContextCounts) {
  const HostLine found = find_host_line(profile({25e3, 12e6}));
  EXPECT_NEAR(found.ns, 12e6, 0.02e6);
  EXPECT_NEAR(found.ns_per_request, 25e3, 200.0);
}

TEST(HostLine, IsNoneWhereTheGpuDecides) {
  EXPECT_EQ(find_host_line(profile({})).ns, 0.0);
  EXPECT_EQ(find_host_line({}).ns, 0.0);
  auto two_sizes = profile({0.0, 12e6});
  std::erase_if(two_sizes, [](const StepSample& s) { return s.shape.decode_requests > 16; });
  EXPECT_EQ(find_host_line(two_sizes).ns, 0.0) << "any two values lie on a line";
}

TEST(HostLine, IsNoneWhereItWouldLieAboveOtherSteps) {
  auto samples = profile({200e3, 12e6});  // steep, and of batches of 64 at most
  const auto without = profile({});
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].shape.decode_requests > 64) samples[i] = without[i];
  }
  EXPECT_EQ(find_host_line(samples).ns, 0.0);
}

TEST(HostLine, LeavesThePlanesToTheGpu) {
  const auto samples = profile({25e3, 12e6});
  LinearFitOptions options;
  const auto planes = fit_linear(samples, options);
  options.find_host = true;
  const auto both = fit_linear(samples, options);
  ASSERT_TRUE(planes && both);
  double worst_of_planes = 0.0;
  for (const StepSample& s : samples) {
    const auto error = [&](const LinearFit& fit) {
      return std::abs(fit.model.step_time(s.shape, s.clock).seconds() / s.duration.seconds() - 1.0);
    };
    worst_of_planes = std::max(worst_of_planes, error(*planes));
    ASSERT_LT(error(*both), 0.02) << s.clock.value() << ' ' << s.shape.decode_requests << ' '
                                  << s.shape.decode_kv_tokens;
  }
  EXPECT_GT(worst_of_planes, 0.1);
}

/// Steps of prompts of 64 and 256 tokens, whose GPU takes 5 ms and 20 us a token at 1410 MHz.
std::vector<StepSample> prompts(const HostLine& host) {
  std::vector<StepSample> samples;
  for (const MegaHertz clock : {MegaHertz{1005}, MegaHertz{1410}}) {
    for (const std::int32_t length : {64, 256}) {
      for (std::int32_t tokens = 128; tokens <= 8'192; tokens += 32) {
        StepSample s;
        s.clock = clock;
        s.shape.prefill_tokens = tokens;
        s.shape.prefill_requests = (tokens + length - 1) / length;
        const double gpu = 1410.0 / clock.value() * (5e6 + 20e3 * tokens);
        s.duration =
            Span(static_cast<std::int64_t>(std::max(gpu, host.ns + host.ns_per_request * s.shape.prefill_requests)));
        samples.push_back(s);
      }
    }
  }
  return samples;
}

TEST(HostLine, OfPromptsGoesByTheirNumberWhateverTheirLength) {
  const auto samples = prompts({5e6, 12e6});
  const HostLine found = find_prompt_host_line(samples);
  EXPECT_NEAR(found.ns, 12e6, 0.1e6);
  EXPECT_NEAR(found.ns_per_request, 5e6, 1e4);
  EXPECT_EQ(find_host_line(samples).ns, 0.0) << "no decodes";
  EXPECT_EQ(find_prompt_host_line(prompts({})).ns, 0.0);
  EXPECT_EQ(find_prompt_host_line(prompts({0.0, 10e6})).ns, 0.0) << "what prompts do not lengthen is the weights'";
  LinearFitOptions options;
  options.find_host = true;
  const auto fit = fit_linear(samples, options);
  ASSERT_TRUE(fit);
  for (const StepSample& s : samples) {
    const double error = fit->model.step_time(s.shape, s.clock).seconds() / s.duration.seconds() - 1.0;
    ASSERT_LT(std::abs(error), 0.02) << s.clock.value() << ' ' << s.shape.prefill_tokens << ' '
                                     << s.shape.prefill_requests;
  }
}

}  // namespace
}  // namespace wattle::predict::host_line_test
