#pragma once
// Output lengths seen, in bounded memory: quantiles, also of those longer than a given length.
#include <array>
#include <cstdint>
#include <unordered_map>

#include "model/request.h"

namespace wattle::predict {

/// Counts per length, log-linear: exact to 16 tokens, then 16 steps to each doubling (quantiles are off by at most
/// 1/32). Old lengths fade: at kMemory all counts are halved, so what counts is the last few thousand. 1.2 kB.
class LengthSketch {
 public:
  static constexpr std::uint32_t kMemory = 4096;

  /// Lengths below 1 count as 1, beyond 2^20 as that.
  void add(std::int32_t tokens);
  /// Smallest length that at least a share q in [0, 1] of those above `produced` do not exceed; 0 when there is none.
  [[nodiscard]] std::int32_t quantile(double q, std::int32_t produced = 0) const;
  /// Those above `produced`: whole buckets.
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

/// A sketch per prompt length (half octaves) and, where one was seen often enough, per tenant and prompt length.
class LengthSketches {
 public:
  static constexpr std::size_t kMostTenantSketches = 1024;  ///< tenants beyond share the prompt length's own
  static constexpr std::uint32_t kFewest = 32;              ///< fewer say nothing: the next wider sketch is asked

  void add(const Request& request, std::int32_t tokens);
  /// As LengthSketch::quantile, from the narrowest sketch with kFewest lengths above `produced`; 0: none has.
  [[nodiscard]] std::int32_t quantile(const Request& request, double q, std::int32_t produced) const;
  [[nodiscard]] std::size_t tenant_sketches() const { return by_tenant_.size(); }

 private:
  static constexpr std::size_t kPromptBuckets = 64;
  [[nodiscard]] static std::size_t prompt_bucket(std::int32_t prompt_tokens);
  [[nodiscard]] static std::int64_t key(const Request& request);

  LengthSketch all_;
  std::array<LengthSketch, kPromptBuckets> by_prompt_;
  std::unordered_map<std::int64_t, LengthSketch> by_tenant_;
};

}  // namespace wattle::predict
