#include "predict/length_sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace wattle::predict {

std::size_t LengthSketch::bucket(std::int32_t tokens) {
  const auto v = static_cast<std::uint32_t>(std::clamp(tokens, 1, 1 << kLongestBits));
  if (v < (1U << kSubBits)) return v;
  const int shift = static_cast<int>(std::bit_width(v)) - 1 - kSubBits;
  return (static_cast<std::size_t>(shift + 1) << kSubBits) + ((v >> shift) - (1U << kSubBits));
}

std::int32_t LengthSketch::middle(std::size_t bucket) {
  if (bucket < (std::size_t{1} << kSubBits)) return static_cast<std::int32_t>(bucket);
  const int shift = static_cast<int>(bucket >> kSubBits) - 1;
  const std::size_t low = ((bucket & ((1U << kSubBits) - 1)) + (1U << kSubBits)) << shift;
  return static_cast<std::int32_t>(low + ((std::size_t{1} << shift) - 1) / 2);
}

void LengthSketch::add(std::int32_t tokens) {
  ++counts_[bucket(tokens)];
  if (++total_ < kMemory) return;
  total_ = 0;
  for (auto& count : counts_) total_ += count /= 2;
}

std::uint32_t LengthSketch::count(std::int32_t produced) const {
  if (produced < 1) return total_;
  std::uint32_t above = 0;
  for (std::size_t i = bucket(produced) + 1; i < kBuckets; ++i) above += counts_[i];
  return above;
}

std::int32_t LengthSketch::quantile(double q, std::int32_t produced) const {
  const std::size_t first = produced < 1 ? 0 : bucket(produced) + 1;
  const std::uint32_t above = count(produced);
  if (above == 0) return 0;
  const auto wanted = static_cast<std::uint32_t>(std::ceil(std::clamp(q, 0.0, 1.0) * above));
  std::uint32_t seen = 0;
  std::size_t i = first;
  while (i + 1 < kBuckets && (seen += counts_[i]) < std::max(wanted, 1U)) ++i;
  return middle(i);
}

std::size_t LengthSketches::prompt_bucket(std::int32_t prompt_tokens) {
  const auto p = static_cast<std::uint64_t>(std::max(prompt_tokens, 1));
  const int octave = static_cast<int>(std::bit_width(p)) - 1;
  return static_cast<std::size_t>(2 * octave) + ((p * p) >> (2 * octave + 1) != 0 ? 1 : 0);
}

std::int64_t LengthSketches::key(const Request& request) {
  return std::int64_t{request.tenant.value()} * static_cast<std::int64_t>(kPromptBuckets) +
         static_cast<std::int64_t>(prompt_bucket(request.prompt_tokens));
}

void LengthSketches::add(const Request& request, std::int32_t tokens) {
  all_.add(tokens);
  by_prompt_[prompt_bucket(request.prompt_tokens)].add(tokens);
  const auto found = by_tenant_.find(key(request));
  if (found != by_tenant_.end()) {
    found->second.add(tokens);
  } else if (by_tenant_.size() < kMostTenantSketches) {
    by_tenant_[key(request)].add(tokens);
  }
}

std::int32_t LengthSketches::quantile(const Request& request, double q, std::int32_t produced) const {
  const auto found = by_tenant_.find(key(request));
  const LengthSketch* const narrowest_first[] = {found == by_tenant_.end() ? nullptr : &found->second,
                                                 &by_prompt_[prompt_bucket(request.prompt_tokens)], &all_};
  for (const LengthSketch* sketch : narrowest_first) {
    if (sketch != nullptr && sketch->count(produced) >= kFewest) return sketch->quantile(q, produced);
  }
  return 0;
}

}  // namespace wattle::predict
