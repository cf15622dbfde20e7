#pragma once
// What a driver's answer means for the caller.
#include <cstdint>

namespace wattle::node {

enum class GpuStatus : std::uint8_t {
  Ok,
  Absent,     ///< not supported by this driver, GPU or partition: never ask again, run read-only
  Forbidden,  ///< no permission: report it to the operator once, never retry
  Transient,  ///< may work soon: retry with back-off
  Gone,       ///< the device is lost: retry with back-off, release what depends on it
  Refused,    ///< invalid arguments: a bug of ours or an unusual device; counted, not retried
};

[[nodiscard]] constexpr const char* name_of(GpuStatus status) {
  switch (status) {
    case GpuStatus::Ok:
      return "ok";
    case GpuStatus::Absent:
      return "absent";
    case GpuStatus::Forbidden:
      return "forbidden";
    case GpuStatus::Transient:
      return "transient";
    case GpuStatus::Gone:
      return "gone";
    case GpuStatus::Refused:
      return "refused";
  }
  return "refused";
}

/// What a power reading means.
enum class PowerReading : std::uint8_t {
  Instant,
  OneSecondMean,
};

/// A value, or why there is none.
template <typename T>
struct GpuAnswer {
  T value{};
  GpuStatus failure = GpuStatus::Ok;
  [[nodiscard]] GpuStatus status() const { return failure; }
  [[nodiscard]] bool ok() const { return failure == GpuStatus::Ok; }
};

}  // namespace wattle::node
