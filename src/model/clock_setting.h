#pragma once
// A clock as an option names it, whatever the GPU: its highest, its lowest, its sweet spot or one so far from it, a
// share of the highest, or MHz.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/instance.h"

namespace wattle {

/// The sweet spot of an instance is the lockable clock at which a decode step of its own costs least energy per token,
/// by what is known of the instance (see calibrate/sweet_clock.h for the step).
class ClockSetting {
 public:
  enum class Kind : std::uint8_t { Fixed, Lowest, Highest, Sweet, Share, FromSweet };

  constexpr ClockSetting(MegaHertz clock = MegaHertz{0}) : value_(clock.value()) {}
  [[nodiscard]] static constexpr ClockSetting lowest() { return {Kind::Lowest, 0.0}; }
  [[nodiscard]] static constexpr ClockSetting highest() { return {Kind::Highest, 0.0}; }
  [[nodiscard]] static constexpr ClockSetting sweet() { return {Kind::Sweet, 0.0}; }
  /// Of the highest, in (0, 1].
  [[nodiscard]] static constexpr ClockSetting share(double of_highest) { return {Kind::Share, of_highest}; }

  /// That share, in [-1, 1), of the way from the sweet spot up to the highest; if negative, down to the lowest at which
  /// anything was measured (InstanceSpec::measured_from, Beliefs::clocks) or, where nobody knows, to the GPU's lowest.
  [[nodiscard]] static constexpr ClockSetting from_sweet(double share) { return {Kind::FromSweet, share}; }

  [[nodiscard]] constexpr Kind kind() const { return kind_; }
  [[nodiscard]] constexpr double value() const { return value_; }  ///< MHz of a fixed clock, or the share
  [[nodiscard]] constexpr bool needs_sweet() const { return kind_ == Kind::Sweet || kind_ == Kind::FromSweet; }
  constexpr bool operator==(const ClockSetting&) const = default;

  /// On this instance. A share takes the nearest clock that the GPU's steps reach; a sweet spot that is not known is 0.
  [[nodiscard]] MegaHertz on(const InstanceSpec& spec) const {
    const GpuSpec& gpu = spec.gpu;
    double below = 0.0;  // the highest, MHz
    switch (kind_) {
      case Kind::Fixed:
        return MegaHertz(static_cast<std::int32_t>(value_));
      case Kind::Lowest:
        return gpu.clock_min;
      case Kind::Highest:
        return gpu.clock_max;
      case Kind::Sweet:
        return spec.sweet_clock;
      case Kind::FromSweet:
        if (spec.sweet_clock == MegaHertz{0}) return spec.sweet_clock;
        below = value_ >= 0.0 ? (gpu.clock_max.value() - spec.sweet_clock.value()) * (1.0 - value_)
                              : gpu.clock_max.value() - spec.sweet_clock.value() -
                                    value_ * std::max(spec.sweet_clock.value() - known_from(spec).value(), 0);
        break;
      case Kind::Share:
        below = gpu.clock_max.value() * (1.0 - value_);
        break;
    }
    const auto steps = static_cast<std::int32_t>(below / gpu.clock_step.value() + 0.5);
    return std::max(gpu.clock_min, MegaHertz(gpu.clock_max.value() - steps * gpu.clock_step.value()));
  }

 private:
  constexpr ClockSetting(Kind kind, double value) : kind_(kind), value_(value) {}
  [[nodiscard]] static MegaHertz known_from(const InstanceSpec& spec) {
    return std::max({spec.gpu.clock_min, spec.measured_from, spec.beliefs.clocks.lowest});
  }
  Kind kind_ = Kind::Fixed;
  double value_ = 0.0;
};

/// A choice among an instance's clocks: those listed or, with none listed, every one it has from `lowest` on within
/// Beliefs::clocks. May be empty.
[[nodiscard]] inline std::vector<MegaHertz> clocks_to_choose(std::span<const ClockSetting> listed, ClockSetting lowest,
                                                             const InstanceSpec& spec) {
  std::vector<MegaHertz> clocks;
  for (const ClockSetting& setting : listed) clocks.push_back(setting.on(spec));
  if (!listed.empty()) return clocks;
  const MegaHertz floor = lowest.on(spec);
  for (const MegaHertz clock : spec.clocks) {
    if (clock >= floor && spec.beliefs.clocks.covers(clock)) clocks.push_back(clock);
  }
  return clocks;
}

}  // namespace wattle
