#include "systems/reserve.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/clock_setting.h"
#include "systems/registry.h"

namespace wattle::systems {

namespace {

using Fleet = std::span<const std::shared_ptr<const InstanceSpec>>;

constexpr int kMostPercent = 95;  ///< what every margin's bounds allow

bool prefills(const InstanceSpec& spec) { return spec.role == Role::Prefill; }

constexpr int kFallingSteps = 20;

std::vector<std::string> shares() {
  std::vector<std::string> all;
  for (int percent = 0; percent <= kMostPercent; ++percent) all.push_back(fmt::format("{}", percent / 100.0));
  return all;
}

/// Values from the recipe's own down to a twentieth of it.
std::vector<std::string> falling(double own) {
  std::vector<std::string> all{""};
  for (int left = kFallingSteps - 1; left > 0; --left) {
    all.push_back(fmt::format("{:.3g}", own * left / kFallingSteps));
  }
  return all;
}

/// The lowest that comparisons with fixed clocks try: the lowest that is known (docs/decisions/0047).
constexpr ClockSetting kLowestFixed = ClockSetting::from_sweet(-1.0);

/// Clocks from the recipe's own upwards, on every instance of `phase`; if that is the sweet spot, from below it.
std::vector<std::string> clocks_from(const ClockSetting& own, Fleet fleet, bool prefill) {
  std::span<const MegaHertz> clocks;
  MegaHertz from{0}, lowest{0};
  for (const auto& spec : fleet) {
    if (prefills(*spec) != prefill) continue;
    clocks = spec->clocks;
    from = std::max(from, own.on(*spec));
    lowest = std::max(lowest, (own == ClockSetting::sweet() ? kLowestFixed : own).on(*spec));
  }
  std::vector<std::string> all;
  const auto add = [&](auto&& wanted) {
    for (const MegaHertz clock : clocks) {
      if (wanted(clock)) all.push_back(fmt::format("{}", clock.value()));
    }
  };
  add([&](MegaHertz clock) { return clock >= lowest && clock < from; });
  all.emplace_back();
  add([&](MegaHertz clock) { return clock > from; });
  return all;
}

}  // namespace

std::vector<Reserve> reserves_of(const Recipe& recipe, Fleet fleet) {
  std::vector<Reserve> all;
  const auto has = [&](bool prefill) {
    return std::ranges::any_of(fleet, [&](const auto& spec) { return prefills(*spec) == prefill; });
  };
  const bool colocated = std::ranges::all_of(fleet, [](const auto& spec) { return spec->role == Role::Colocated; });
  const auto add = [&](SlotKind slot, const PolicyChoice& choice, const std::string& section, bool prefill) {
    const PolicyEntry& entry = entry_of(slot, choice);
    if (entry.reserve.empty() || choice.mode != Mode::Enforce) return false;
    const auto own = [&](const std::string& key) {
      const auto option = std::ranges::find(entry.options, key, &config::Option<std::any>::key);
      return std::pair(option->type, option->get(options_in(entry, choice)));
    };
    std::string key = entry.reserve;
    std::vector<std::string> values;
    if (colocated && !entry.colocated_reserve.empty()) {
      const double share = config::Codec<double>::read(own(entry.colocated_reserve).second, 1.0);
      if (share > 0.0) {
        key = entry.colocated_reserve;
        values = falling(share);
      }
    }
    if (values.empty()) {
      const auto [type, value] = own(key);
      const bool clock = type == config::OptionType::Clock;
      values = clock ? clocks_from(config::Codec<ClockSetting>::read(value, 1.0), fleet, prefill) : shares();
    }
    if (values.size() > 1) all.push_back({section + "." + key, std::move(values)});
    return true;
  };
  (void)add(SlotKind::Scaling, recipe.scaling, "scaling", false);
  if (add(SlotKind::Admission, recipe.admission, "admission", false)) return all;
  if (has(true)) (void)add(SlotKind::Frequency, recipe.prefill_frequency, "frequency.prefill", true);
  if (has(false)) (void)add(SlotKind::Frequency, recipe.decode_frequency, "frequency.decode", false);
  return all;
}

}  // namespace wattle::systems
