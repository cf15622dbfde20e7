#include "journal/names.h"

#include <array>

namespace wattle::journal {
namespace {

using std::string_view_literals::operator""sv;

// In the enumerators' own order.
constexpr std::array kDecisionKinds = {"admission"sv, "route-prefill"sv, "route-decode"sv, "clock"sv,
                                       "queueing"sv,  "scaling"sv,       "phase"sv,        "length"sv,
                                       "plan"sv,      "step"sv,          "pool"sv,         "emergency"sv};
constexpr std::array kStepKinds = {"start"sv, "drain"sv, "reshard"sv, "move"sv, "reroute"sv};
constexpr std::array kRungNames = {"reorder"sv, "boost"sv, "resteer"sv, "squash"sv, "shed"sv};
constexpr std::array kPhases = {"spawning"sv, "warming"sv, "serving"sv, "draining"sv, "gone"sv};
constexpr std::array kFates = {"finished"sv, "rejected"sv, "failed"sv, "cancelled"sv, "in_flight"sv};

static_assert(kDecisionKinds.size() == static_cast<std::size_t>(DecisionKind::Emergency) + 1);
static_assert(kStepKinds.size() == static_cast<std::size_t>(StepKind::Reroute) + 1);
static_assert(kRungNames.size() == kRungs);
static_assert(kPhases.size() == static_cast<std::size_t>(Phase::Gone) + 1);
static_assert(kModeNames.size() == static_cast<std::size_t>(Mode::Off) + 1);
static_assert(kFates.size() == static_cast<std::size_t>(Fate::InFlight) + 1);
static_assert(kRoleNames.size() == static_cast<std::size_t>(Role::Decode) + 1);

template <typename E, std::size_t N>
std::optional<E> find(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

template <typename E, std::size_t N>
std::optional<E> find(const std::array<std::pair<std::string_view, E>, N>& names, std::string_view name) {
  for (const auto& [known, value] : names) {
    if (known == name) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(DecisionKind kind) { return kDecisionKinds[static_cast<std::size_t>(kind)]; }
std::string_view name_of(StepKind kind) { return kStepKinds[static_cast<std::size_t>(kind)]; }
std::string_view name_of(Phase phase) { return kPhases[static_cast<std::size_t>(phase)]; }
std::string_view name_of(Mode mode) { return kModeNames[static_cast<std::size_t>(mode)].first; }
std::string_view name_of(Fate fate) { return kFates[static_cast<std::size_t>(fate)]; }
std::string_view name_of(Rung rung) { return kRungNames[static_cast<std::size_t>(rung)]; }
std::string_view name_of(Role role) { return kRoleNames[static_cast<std::size_t>(role)].first; }

std::optional<DecisionKind> decision_kind_from(std::string_view name) {
  return find<DecisionKind>(kDecisionKinds, name);
}
std::optional<Phase> phase_from(std::string_view name) { return find<Phase>(kPhases, name); }
std::optional<Mode> mode_from(std::string_view name) { return find(kModeNames, name); }
std::optional<Role> role_from(std::string_view name) { return find(kRoleNames, name); }

}  // namespace wattle::journal
