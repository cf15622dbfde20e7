#pragma once
// Distribution of output lengths in bounded memory: quantiles, also of lengths above a given one.
#include <array>
#include <cstdint>
#include <unordered_map>

#include "model/request.h"

namespace wattle::predict {

/// Log-linear histogram: exact up to 16 tokens, then 16 buckets per doubling (quantiles are off by at most 1/32). Old
/// lengths decay: at kMemory all counts are halved, so the last few thousand dominate. 1.2 kB.
class LengthSketch {
 public:
  static constexpr std::uint32_t kMemory = 4096;

  /// Lengths are clamped to 1 ... 2^20.
  void add(std::int32_t tokens);
  /// The smallest length that at least a share q in [0, 1] of the lengths above `produced` do not exceed; 0 if there
  /// are none.
  [[nodiscard]] std::int32_t quantile(double q, std::int32_t produced = 0) const;
  /// Number of lengths above `produced`, in whole buckets.
  [[nodiscard]] std::uint32_t count(std::int32_t produced = 0) const;

 private:
  static constexpr int kSubBits = 4;
  static constexpr int kLongestBits = 20;
  static constexpr std::size_t kBuckets = ((kLongestBits - kSubBits + 1) << kSubBits) + 1;
  [[nodiscard]] static std::size_t bucket(std::int32_t tokens);
  [[nodiscard]] static std::int32_t middle(std::size_t bucket);

  std::array<std::uint32_t, kBuckets> counts_{};
  std::uint32_t total_ = 0;
};

/// A sketch per prompt length (half octaves) and, for frequent tenants, per tenant and prompt length.
class LengthSketches {
 public:
  static constexpr std::size_t kMostTenantSketches = 1024;  ///< further tenants share the prompt length's sketch
  static constexpr std::uint32_t kFewest = 32;              ///< with fewer, the next wider sketch is used

  void add(const Request& request, std::int32_t tokens);
  /// Like LengthSketch::quantile, from the most specific sketch with at least kFewest lengths above `produced`; 0: none
  /// has.
  [[nodiscard]] std::int32_t quantile(const Request& request, double q, std::int32_t produced) const;

 private:
  static constexpr std::size_t kPromptBuckets = 64;
  [[nodiscard]] static std::size_t prompt_bucket(std::int32_t prompt_tokens);
  [[nodiscard]] static std::int64_t key(const Request& request);

  LengthSketch all_;
  std::array<LengthSketch, kPromptBuckets> by_prompt_;
  std::unordered_map<std::int64_t, LengthSketch> by_tenant_;
};

}  // namespace wattle::predict
