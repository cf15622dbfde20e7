#pragma once
// The words by which enumerators appear in files.
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "journal/record.h"

namespace wattle::journal {

// In the enumerators' own order; recipes and scenarios use the same words.
inline constexpr auto kModeNames = std::to_array<std::pair<std::string_view, Mode>>(
    {{"enforce", Mode::Enforce}, {"shadow", Mode::Shadow}, {"off", Mode::Off}});
inline constexpr auto kRoleNames = std::to_array<std::pair<std::string_view, Role>>(
    {{"colocated", Role::Colocated}, {"prefill", Role::Prefill}, {"decode", Role::Decode}});

[[nodiscard]] std::string_view name_of(DecisionKind kind);
[[nodiscard]] std::string_view name_of(StepKind kind);
[[nodiscard]] std::string_view name_of(Phase phase);
[[nodiscard]] std::string_view name_of(Mode mode);
[[nodiscard]] std::string_view name_of(Fate fate);
[[nodiscard]] std::string_view name_of(Rung rung);
[[nodiscard]] std::string_view name_of(Role role);

/// Nothing for a word that names no enumerator.
[[nodiscard]] std::optional<DecisionKind> decision_kind_from(std::string_view name);
[[nodiscard]] std::optional<Phase> phase_from(std::string_view name);
[[nodiscard]] std::optional<Mode> mode_from(std::string_view name);
[[nodiscard]] std::optional<Role> role_from(std::string_view name);

}  // namespace wattle::journal
