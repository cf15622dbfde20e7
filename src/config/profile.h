#pragma once
// profiles/<gpu>.toml: the fitted factors of one GPU kind, as `wattle fit` writes them.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/option.h"
#include "config/project.h"
#include "engine/hardware_profile.h"

namespace wattle::config {

/// A profile file: the factors, and one sentence on where they come from.
struct LoadedProfile {
  engine::HardwareProfile factors;
  std::string provenance;
};

[[nodiscard]] const std::vector<Option<LoadedProfile>>& profile_options();

/// Every factor must be there and inside its physical range; the GPU is the file's name.
[[nodiscard]] Result<LoadedProfile> profile_from_text(std::string_view text, const std::string& file);
[[nodiscard]] Result<LoadedProfile> load_profile(const std::string& file);

/// The profile of a GPU kind, from the project's profiles/. Errors name the kinds that have one.
[[nodiscard]] Result<engine::HardwareProfile> profile_of(std::string_view gpu, const Project& project);

/// The file's text, with `notes` (fit statistics) as comments; profile_from_text reads it back to the same factors.
[[nodiscard]] std::string to_text(const LoadedProfile& profile, const std::vector<std::string>& notes);

}  // namespace wattle::config
