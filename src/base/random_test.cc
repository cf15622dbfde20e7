#include "base/random.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "base/digest.h"

namespace wattle {
namespace {

// A stream is seeded with seed ^ digest(name); this seed cancels the name, so that published vectors apply.
std::uint64_t seed_for_splitmix_state(std::uint64_t state, std::string_view name) {
  Digest digest;
  digest.add_text(name);
  return state ^ digest.value();
}

TEST(RandomStream, MatchesReferenceVectorsOfXoshiro256PlusPlusSeededBySplitmix) {
  // Blackman & Vigna's C sources, splitmix64 started at 0: the state is e220a8397b1dcdaf 6e789e6aa1b965f4
  // 06c45d188009454f f88bb8a8724c81ec.
  RandomStream stream(seed_for_splitmix_state(0, "vectors"), "vectors");
  for (const std::uint64_t expected : {0x53175d61490b23dfULL, 0x61da6f3dc380d507ULL, 0x5c0fdf91ec9a7bfcULL,
                                       0x02eebf8c3bbe5e1aULL, 0x7eca04ebaf4a5eeaULL, 0x0543c37757f08d9aULL}) {
    EXPECT_EQ(stream.next_u64(), expected);
  }
  RandomStream other(seed_for_splitmix_state(1234567, "x"), "x");
  for (const std::uint64_t expected : {0x0610e053dd55ab68ULL, 0x70c979e26e27fbacULL, 0xfb95f99f9f6bb2deULL}) {
    EXPECT_EQ(other.next_u64(), expected);
  }
}

TEST(RandomStream, NamesArePartOfTheContract) {
  // A change of these values changes every seeded run there ever was.
  EXPECT_EQ(RandomStream(1, "arrivals").next_u64(), 0x31ef17a70340ee91ULL);
  EXPECT_EQ(RandomStream(1, "lengths").next_u64(), 0xf2fe18894c5c65fdULL);
  EXPECT_EQ(RandomStream(2, "arrivals").next_u64(), 0xe58539fa547d5a45ULL);
}

TEST(RandomStream, DrawingFromOneStreamDoesNotShiftAnother) {
  RandomStream alone(7, "lengths");
  RandomStream busy(7, "arrivals");
  RandomStream beside(7, "lengths");
  for (int i = 0; i < 1000; ++i) {
    for (int k = 0; k < i % 3; ++k) busy.next_u64();
    ASSERT_EQ(alone.next_u64(), beside.next_u64());
  }
}

TEST(RandomStream, StreamsOfDifferentNameOrSeedAreUncorrelated) {
  constexpr int kDraws = 100'000;
  const auto correlation = [](RandomStream a, RandomStream b) {
    double sum = 0;
    for (int i = 0; i < kDraws; ++i) sum += (a.uniform() - 0.5) * (b.uniform() - 0.5);
    return sum / kDraws * 12.0;
  };
  const double bound = 5.0 / std::sqrt(kDraws);  // five standard deviations
  EXPECT_LT(std::abs(correlation(RandomStream(1, "arrivals"), RandomStream(1, "lengths"))), bound);
  EXPECT_LT(std::abs(correlation(RandomStream(1, "arrivals"), RandomStream(2, "arrivals"))), bound);
  EXPECT_LT(std::abs(correlation(RandomStream(1, "a"), RandomStream(1, "b"))), bound);
  EXPECT_NEAR(correlation(RandomStream(1, "a"), RandomStream(1, "a")), 1.0, 0.02);  // the measure itself
}

struct Moments {
  double mean = 0;
  double variance = 0;
  double third = 0;  ///< third central moment
};

Moments moments(const std::function<double()>& draw) {
  constexpr std::size_t kDraws = 400'000;
  std::vector<double> values(kDraws);
  for (double& v : values) v = draw();
  Moments m;
  for (const double v : values) m.mean += v / kDraws;
  for (const double v : values) {
    const double d = v - m.mean;
    m.variance += d * d / kDraws;
    m.third += d * d * d / kDraws;
  }
  return m;
}

TEST(RandomStream, UniformHasTheMomentsOfTheUnitInterval) {
  RandomStream stream(3, "uniform");
  const Moments m = moments([&] {
    const double u = stream.uniform();
    EXPECT_GE(u, 0.0);
    EXPECT_LT(u, 1.0);
    return u;
  });
  EXPECT_NEAR(m.mean, 0.5, 0.003);
  EXPECT_NEAR(m.variance, 1.0 / 12.0, 0.001);
  EXPECT_NEAR(m.third, 0.0, 0.001);
}

TEST(RandomStream, ExponentialHasMeanOneVarianceOneAndSkewTwo) {
  RandomStream stream(3, "exponential");
  const Moments m = moments([&] { return stream.exponential(); });
  EXPECT_NEAR(m.mean, 1.0, 0.01);
  EXPECT_NEAR(m.variance, 1.0, 0.02);
  EXPECT_NEAR(m.third, 2.0, 0.15);
}

TEST(RandomStream, NormalIsStandardAndSymmetric) {
  RandomStream stream(3, "normal");
  int within_one = 0;
  const Moments m = moments([&] {
    const double x = stream.normal();
    within_one += std::abs(x) < 1.0 ? 1 : 0;
    return x;
  });
  EXPECT_NEAR(m.mean, 0.0, 0.01);
  EXPECT_NEAR(m.variance, 1.0, 0.01);
  EXPECT_NEAR(m.third, 0.0, 0.03);
  EXPECT_NEAR(within_one / 400'000.0, 0.6827, 0.005);
}

TEST(RandomStream, GammaHasMeanAndVarianceOfItsShape) {
  for (const double shape : {0.25, 0.5, 1.0, 2.0, 7.5}) {
    RandomStream stream(3, "gamma");
    const Moments m = moments([&] {
      const double x = stream.gamma(shape);
      EXPECT_GE(x, 0.0);
      return x;
    });
    EXPECT_NEAR(m.mean, shape, 0.02 * std::max(shape, 0.5)) << shape;
    EXPECT_NEAR(m.variance, shape, 0.03 * std::max(shape, 0.5)) << shape;
    EXPECT_NEAR(m.third, 2.0 * shape, 0.15 * std::max(shape, 1.0)) << shape;
  }
}

TEST(RandomStream, BelowFillsItsRangeEvenly) {
  RandomStream stream(3, "below");
  constexpr std::size_t kFaces = 7;
  constexpr int kDraws = 70'000;
  std::array<int, kFaces> seen{};
  for (int i = 0; i < kDraws; ++i) ++seen.at(stream.below(kFaces));
  double chi2 = 0;
  for (const int n : seen) chi2 += (n - kDraws / 7.0) * (n - kDraws / 7.0) / (kDraws / 7.0);
  EXPECT_LT(chi2, 27.9);  // 6 degrees of freedom, p = 0.0001
}

RC_GTEST_PROP(RandomStream, BelowStaysBelow, ()) {
  const auto n = *rc::gen::arbitrary<std::uint64_t>();
  RC_PRE(n > 0U);
  RandomStream stream(*rc::gen::arbitrary<std::uint64_t>(), "any");
  for (int i = 0; i < 20; ++i) RC_ASSERT(stream.below(n) < n);
}

}  // namespace
}  // namespace wattle
