#pragma once
// A clock as an option states it, independent of the GPU: its highest, its lowest, its sweet spot, a position between
// these, a share of the highest, or MHz.
#include <algorithm>
#include <cstdint>
#include <ranges>
#include <span>
#include <vector>

#include "model/instance.h"

namespace wattle {

/// The sweet spot of an instance is the lockable clock at which its steps take least energy per token by its profile
/// (see calibrate/sweet_clock.h for the step used).
class ClockSetting {
 public:
  enum class Kind : std::uint8_t { Fixed, Lowest, Highest, Sweet, Share, FromSweet };

  constexpr ClockSetting(MegaHertz clock = MegaHertz{0}) : value_(clock.value()) {}
  [[nodiscard]] static constexpr ClockSetting lowest() { return {Kind::Lowest, 0.0}; }
  [[nodiscard]] static constexpr ClockSetting highest() { return {Kind::Highest, 0.0}; }
  [[nodiscard]] static constexpr ClockSetting sweet() { return {Kind::Sweet, 0.0}; }
  /// A share of the highest clock, in (0, 1].
  [[nodiscard]] static constexpr ClockSetting share(double of_highest) { return {Kind::Share, of_highest}; }

  /// `share` in [-1, 1): that part of the way from the sweet spot up to the highest clock; if negative, down to the
  /// lowest measured clock (InstanceSpec::measured_from, Beliefs::clocks) or, if unknown, to the GPU's lowest.
  [[nodiscard]] static constexpr ClockSetting from_sweet(double share) { return {Kind::FromSweet, share}; }

  [[nodiscard]] constexpr Kind kind() const { return kind_; }
  [[nodiscard]] constexpr double value() const { return value_; }  ///< MHz of a fixed clock, or the share
  [[nodiscard]] constexpr bool needs_sweet() const { return kind_ == Kind::Sweet || kind_ == Kind::FromSweet; }
  constexpr bool operator==(const ClockSetting&) const = default;

  /// The clock on this instance, rounded to the nearest that the GPU can lock; 0 if it needs a sweet spot that is not
  /// known.
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

/// Clocks nearer to each other are one to a policy: steps and power differ by less than any prediction's error, and
/// models are fitted and searched for each. NVIDIA's step; AMD's cards lock every MHz.
inline constexpr MegaHertz kNearestClocks{15};

/// The clocks to choose from on an instance: those listed or, if none are listed, its clocks from the highest down to
/// `lowest` within Beliefs::clocks, kNearestClocks apart or more. Ascending. May be empty.
[[nodiscard]] inline std::vector<MegaHertz> clocks_to_choose(std::span<const ClockSetting> listed, ClockSetting lowest,
                                                             const InstanceSpec& spec) {
  std::vector<MegaHertz> clocks;
  for (const ClockSetting& setting : listed) clocks.push_back(setting.on(spec));
  if (!listed.empty()) return clocks;
  const MegaHertz floor = lowest.on(spec);
  for (const MegaHertz clock : spec.clocks | std::views::reverse) {
    if (clock < floor || !spec.beliefs.clocks.covers(clock)) continue;
    if (clocks.empty() || clocks.back().value() - clock.value() >= kNearestClocks.value()) clocks.push_back(clock);
  }
  std::ranges::reverse(clocks);
  return clocks;
}

}  // namespace wattle
