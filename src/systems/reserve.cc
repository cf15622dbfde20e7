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

std::vector<std::string> shares() {
  std::vector<std::string> all;
  for (int percent = 0; percent <= kMostPercent; ++percent) all.push_back(fmt::format("{}", percent / 100.0));
  return all;
}

/// From what the recipe says, on every instance of `phase`, up.
std::vector<std::string> clocks_from(const ClockSetting& own, Fleet fleet, bool prefill) {
  std::vector<std::string> all{""};
  const InstanceSpec* any = nullptr;
  MegaHertz from{0};
  for (const auto& spec : fleet) {
    if (prefills(*spec) != prefill) continue;
    any = spec.get();
    from = std::max(from, own.on(*spec));
  }
  if (any == nullptr) return all;
  for (const MegaHertz clock : any->clocks) {
    if (clock > from) all.push_back(fmt::format("{}", clock.value()));
  }
  return all;
}

}  // namespace

std::vector<Reserve> reserves_of(const Recipe& recipe, Fleet fleet) {
  std::vector<Reserve> all;
  const auto add = [&](SlotKind slot, const PolicyChoice& choice, const std::string& section, bool prefill) {
    const PolicyEntry& entry = entry_of(slot, choice);
    if (entry.reserve.empty() || choice.mode != Mode::Enforce) return false;
    const auto option = std::ranges::find(entry.options, entry.reserve, &config::Option<std::any>::key);
    std::vector<std::string> values;
    if (option->type == config::OptionType::Clock) {
      const auto own = config::Codec<ClockSetting>::read(option->get(options_in(entry, choice)), 1.0);
      values = clocks_from(own, fleet, prefill);
    } else {
      values = shares();
    }
    if (values.size() > 1) all.push_back({section + "." + entry.reserve, std::move(values)});
    return true;
  };
  (void)add(SlotKind::Scaling, recipe.scaling, "scaling", false);
  if (add(SlotKind::Admission, recipe.admission, "admission", false)) return all;
  const auto has = [&](bool prefill) {
    return std::ranges::any_of(fleet, [&](const auto& spec) { return prefills(*spec) == prefill; });
  };
  if (has(true)) (void)add(SlotKind::Frequency, recipe.prefill_frequency, "frequency.prefill", true);
  if (has(false)) (void)add(SlotKind::Frequency, recipe.decode_frequency, "frequency.decode", false);
  return all;
}

}  // namespace wattle::systems
