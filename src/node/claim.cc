#include "node/claim.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace wattle::node {

namespace {
constexpr std::string_view kBefore = " power_limit_mw=";
}

std::string claim_of_power(const std::string& uuid, Milliwatts before) {
  return fmt::format("{}{}{}", uuid, kBefore, before.value());
}

Result<GpuStatus> undo(const GpuLibrary& library, const std::string& claim) {
  const std::size_t at = claim.find(kBefore);
  const auto gpu = library.by_uuid(claim.substr(0, at));
  if (!gpu) return std::unexpected(gpu.error());
  if (at == std::string::npos) return gpu->reset_clock();
  std::int64_t before = 0;
  const char* end = claim.data() + claim.size();
  const auto parsed = std::from_chars(claim.data() + at + kBefore.size(), end, before);
  if (parsed.ec != std::errc() || parsed.ptr != end) return bad_input(claim, "names no power limit");
  return gpu->set_power_limit(Milliwatts(before));
}

}  // namespace wattle::node
