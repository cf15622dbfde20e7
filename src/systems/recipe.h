#pragma once
// What a recipe file says: a named composition of policies and their options.
#include <any>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "calibrate/beliefs.h"
#include "config/fill.h"
#include "config/project.h"
#include "config/scenario.h"
#include "control/emergency.h"
#include "model/decision.h"
#include "units/time.h"

namespace wattle::systems {

/// A policy by name, with the options that are its own and nobody else's.
struct PolicyChoice {
  std::string policy;
  Mode mode = Mode::Enforce;
  std::any options = {};  ///< the record that the policy registered (registry.h); empty: its defaults
};

/// The options of a choice as the record they are; defaults where none are set. A record of another type is a
/// programming error.
template <typename Record>
[[nodiscard]] Record options_of(const PolicyChoice& choice) {
  return choice.options.has_value() ? std::any_cast<const Record&>(choice.options) : Record{};
}

/// What is believed about how long a request's answer will be.
struct LengthOptions {
  std::string source = "none";        ///< none | oracle | classes | confusion | learned | trees
  double error_p95 = 0.0;             ///< oracle: 95 % of predictions are off by at most this share
  double quantile = 0.5;              ///< classes, learned, trees: share of answers to be no longer than predicted
  bool fall_back = true;              ///< a constant answers while it predicts no worse
  double accuracy = 0.81;             ///< confusion: share of answers whose class is predicted rightly
  std::string errors = "neighbours";  ///< confusion: neighbours | measured
  std::string trees;                  ///< trees: file of those that it begins with; empty: none
};

struct Recipe {
  std::string name;
  std::string description;
  std::string file;
  std::shared_ptr<const config::Origins> origins;  ///< where its keys are stated; null: nowhere
  calibrate::PredictorOptions predictor;           ///< what is believed of step times
  PolicyChoice prefill_frequency{"static"};        ///< prefill instances
  PolicyChoice decode_frequency{"static"};         ///< decode and colocated instances
  PolicyChoice route_prefill{"round-robin"};
  PolicyChoice route_decode{"round-robin"};
  PolicyChoice queueing{"fcfs"};
  PolicyChoice admission{"always"};
  LengthOptions length;
  config::ClassOptions classes;  ///< [classify]: sort requests instead of the scenario's; empty: those
  control::EmergencyOptions emergency;
  PolicyChoice scaling{"none"};
  Span scaling_period = Span::s(10);
  double scaling_surge = 0.0;  ///< control::PlanExecutorOptions::surge
  std::int32_t scaling_at_once = 1'000'000;
  std::int32_t profiled_together = 1;       ///< instances, for load profiles (LoadProfilerOptions::instances)
  std::optional<double> profiled_quantile;  ///< of latencies, likewise; none: that of what plans by them

  [[nodiscard]] bool scales() const { return scaling.policy != "none" && scaling.mode != Mode::Off; }
};

struct LoadedRecipe {
  Recipe recipe;
  config::Origins origins;
};

/// The error with the place of a key that `where` names alone, and with the recipe's name where it does not say the
/// recipe's file: several recipes are run beside each other.
[[nodiscard]] Error of_recipe(Error error, const Recipe& recipe);

/// What becomes of an override whose key belongs to a policy, or a source of lengths, that the recipe does not choose:
/// compared recipes share their overrides.
enum class Unfit : std::uint8_t { Refused, Ignored };

/// `name_or_path` as Project::find takes it. A recipe with `extends = "NAME"` starts from that one: a file of its
/// folder, else one of the project's recipes. A file that names another policy for a slot leaves behind the options
/// that the slot had for the one before. Errors: bad input with file and line; a chain that comes back to itself.
[[nodiscard]] Result<LoadedRecipe> load_recipe(std::string_view name_or_path,
                                               const std::vector<config::Override>& overrides,
                                               const config::Project& project, Unfit unfit = Unfit::Refused);
/// The same from text, for tests and embedded defaults; `file` only names it. It may extend what `project` has.
[[nodiscard]] Result<LoadedRecipe> recipe_from_text(std::string_view text, const std::string& file,
                                                    const std::vector<config::Override>& overrides,
                                                    const config::Project& project = config::Project({}),
                                                    Unfit unfit = Unfit::Refused);

/// Did this override change something? Others were ignored.
[[nodiscard]] bool took(const LoadedRecipe& loaded, const config::Override& override_);

/// Where a section's key was written: by itself, or through the shorthand without "prefill" or "decode".
[[nodiscard]] std::string place_of(const config::Origins& origins, const std::string& section, std::string_view key);

/// What --set means for a scenario and for a recipe: every key belongs to one of the two, and is given once.
struct SplitOverrides {
  std::vector<config::Override> scenario;
  std::vector<config::Override> recipe;
};
[[nodiscard]] Result<SplitOverrides> split_overrides(const std::vector<config::Override>& overrides);

}  // namespace wattle::systems
