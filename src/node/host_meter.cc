#include "node/host_meter.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace wattle::node {

namespace {

constexpr std::string_view kPrefix = "intel-rapl:";  ///< intel-rapl-mmio counts the same energy again

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<std::uint64_t> count_in(const std::filesystem::path& file) {
  const std::string line = first_line(file);
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), value);
  return parsed.ec == std::errc() && parsed.ptr != line.data() ? std::optional(value) : std::nullopt;
}

}  // namespace

HostMeter::HostMeter(const std::string& root) {
  std::error_code error;
  std::vector<std::filesystem::path> zones;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    if (entry.path().filename().string().starts_with(kPrefix)) zones.push_back(entry.path());
  }
  std::ranges::sort(zones);
  for (const auto& zone : zones) {
    const std::string id = zone.filename();
    const std::size_t part = id.find(':', kPrefix.size());
    std::string name = first_line(zone / "name");
    if (part == std::string::npos ? !name.starts_with("package") : name != "dram") continue;
    if (part != std::string::npos)
      name = first_line(std::filesystem::path(root) / id.substr(0, part) / "name") + "/dram";
    const auto range = count_in(zone / "max_energy_range_uj");
    if (!range || !count_in(zone / "energy_uj")) continue;
    domains_.push_back({std::move(name), {}, {}});
    counters_.push_back({zone / "energy_uj", *range, 0});
  }
}

void HostMeter::sample(Instant now) {
  const bool first = last_ == Instant::never();
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    Counter& counter = counters_[i];
    const auto read = count_in(counter.file);
    if (!read) continue;  // the next reading includes what was counted until then
    const std::uint64_t last = std::exchange(counter.last_uj, *read);
    if (first || now <= last_) continue;
    const std::uint64_t grown = *read >= last ? *read - last : counter.range_uj - last + *read;
    const Picojoules drawn(Int128{grown} * 1'000'000);  // from microjoules
    domains_[i].energy += drawn;
    domains_[i].power = Milliwatts(static_cast<std::int64_t>(drawn.value() / (now - last_).ns()));
  }
  last_ = now;
}

}  // namespace wattle::node
