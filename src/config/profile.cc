#include "config/profile.h"

#include <fmt/format.h>

#include <filesystem>

#include "config/fill.h"
#include "config/toml_document.h"

namespace wattle::config {

const std::vector<Option<LoadedProfile>>& profile_options() {
  static const std::vector<Option<LoadedProfile>> options = [] {
    std::vector<Option<LoadedProfile>> all;
    all.push_back(option("provenance", &LoadedProfile::provenance, "Data on which the factors were fitted").must());
    std::vector<Option<engine::HardwareProfile>> factors;
    for (const engine::ProfileField& field : engine::profile_fields()) {
      factors.push_back(
          option(field.key, field.member, field.unit, Bounds{field.low, field.high}, field.meaning).must());
    }
    append(all, "", {&LoadedProfile::factors}, factors);
    return all;
  }();
  return options;
}

Result<LoadedProfile> profile_from_text(std::string_view text, const std::string& file) {
  const Result<Document> document = parse_toml(text, file);
  if (!document) return std::unexpected(document.error());
  const auto specs = specs_of(profile_options());
  if (auto ok = check_keys(specs, document->entries, document->tables, file + ":1"); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  LoadedProfile profile;
  if (auto ok = fill(profile_options(), document->entries, profile); !ok) return std::unexpected(std::move(ok.error()));
  profile.factors.gpu = std::filesystem::path(file).stem().string();
  return profile;
}

Result<LoadedProfile> load_profile(const std::string& file) {
  const Result<std::string> text = read_text(file);
  if (!text) return std::unexpected(text.error());
  return profile_from_text(*text, file);
}

Result<engine::HardwareProfile> profile_of(std::string_view gpu, const Project& project) {
  const Result<std::string> file = project.find(Project::Kind::Profile, gpu, fmt::format("GPU \"{}\"", gpu));
  if (!file) return std::unexpected(file.error());
  Result<LoadedProfile> profile = load_profile(*file);
  if (!profile) return std::unexpected(profile.error());
  return std::move(profile->factors);
}

std::string to_text(const LoadedProfile& profile, const std::vector<std::string>& notes) {
  std::string text = "# Written by `wattle fit`; docs/validation.md says how well it does on rows it has not seen.\n";
  for (const std::string& note : notes) text += fmt::format("# {}\n", note);
  text += fmt::format("provenance = \"{}\"\n\n", profile.provenance);
  for (const engine::ProfileField& field : engine::profile_fields()) {
    std::string value = fmt::format("{:.6g}", profile.factors.*(field.member));
    if (value.find_first_of(".en") == std::string::npos) value += ".0";
    text += fmt::format("{} = {}  # {}{}{}\n", field.key, value, field.unit, *field.unit != '\0' ? "; " : "",
                        field.meaning);
  }
  return text;
}

}  // namespace wattle::config
