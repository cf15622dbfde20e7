#pragma once
// Named, seeded, portable random streams. No std::*_distribution: their output differs between standard libraries.
#include <array>
#include <cstdint>
#include <string_view>

namespace wattle {

/// xoshiro256++ (Blackman & Vigna 2019). A stream is a function of (seed, name) alone, so adding a consumer
/// of one stream never shifts another.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name);

  std::uint64_t next_u64();
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Uniform integer in [0, n); n > 0. Unbiased (Lemire 2019).
  std::uint64_t below(std::uint64_t n);
  /// Exponential with mean 1.
  double exponential();
  /// Standard normal (polar method; no cached second value, so the state is only the generator's).
  double normal();
  /// Gamma with the given shape > 0 and scale 1 (Marsaglia & Tsang 2000).
  double gamma(double shape);

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace wattle
