#pragma once
// The contents of a recipe file: a named composition of policies and their options.
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
#include "control/answer_gaps.h"
#include "control/emergency.h"
#include "model/decision.h"
#include "units/time.h"

namespace wattle::systems {

/// A policy by name, with its own options.
struct PolicyChoice {
  std::string policy;
  Mode mode = Mode::Enforce;
  std::any options = {};  ///< the record that the policy registered (registry.h); empty: its defaults
};

/// The options of a choice as a `Record`; defaults if none are set. A record of another type is a programming error.
template <typename Record>
[[nodiscard]] Record options_of(const PolicyChoice& choice) {
  return choice.options.has_value() ? std::any_cast<const Record&>(choice.options) : Record{};
}

/// How the length of a request's answer is predicted.
struct LengthOptions {
  std::string source = "none";  ///< none | oracle | classes | confusion | learned | trees
  double error_p95 = 0.0;       ///< oracle: 95 % of predictions have at most this relative error
  double quantile = 0.5;   ///< classes, learned, trees: intended share of answers that are no longer than predicted
  bool fall_back = true;   ///< predict a constant as long as that is no worse
  double accuracy = 0.81;  ///< confusion: share of answers whose class is predicted correctly
  std::string errors = "neighbours";  ///< confusion: neighbours | measured
  std::string trees;                  ///< trees: file of the trees to begin with; empty: none
};

struct Recipe {
  std::string name;
  std::string description;
  std::string file;
  std::shared_ptr<const config::Origins> origins;  ///< where its keys are stated; null: in no file
  calibrate::PredictorOptions predictor;           ///< how step times are predicted
  PolicyChoice prefill_frequency{"static"};        ///< prefill instances
  PolicyChoice decode_frequency{"static"};         ///< decode and colocated instances
  PolicyChoice route_prefill{"round-robin"};
  PolicyChoice route_decode{"round-robin"};
  PolicyChoice queueing{"fcfs"};
  PolicyChoice admission{"always"};
  LengthOptions length;
  config::ClassOptions classes;  ///< [classify]: replaces the scenario's classes; empty: the scenario's
  control::EmergencyOptions emergency;
  control::AnswerOptions answers;
  PolicyChoice scaling{"none"};
  Span scaling_period = Span::s(10);
  double scaling_surge = 0.0;  ///< control::PlanExecutorOptions::surge
  std::int32_t scaling_at_once = 1'000'000;
  std::int32_t profiled_together = 1;  ///< LoadProfilerOptions::instances of load profiles
  std::optional<double>
      profiled_quantile;  ///< quantile of latencies in load profiles; none: that of the planner that uses them

  [[nodiscard]] bool scales() const { return scaling.policy != "none" && scaling.mode != Mode::Off; }
};

struct LoadedRecipe {
  Recipe recipe;
  config::Origins origins;
};

/// Completes an error: adds the place in the file where `where` is only a key, and the recipe's name where `where` does
/// not name the recipe's file, because several recipes are run beside each other.
[[nodiscard]] Error of_recipe(Error error, const Recipe& recipe);

/// How an override is treated whose key belongs to a policy or length source that the recipe does not use. (Recipes
/// that are compared share their overrides.)
enum class Unfit : std::uint8_t { Refused, Ignored };

/// `name_or_path`: see Project::find. A recipe with `extends = "NAME"` starts from that recipe: a file in its own
/// folder, else one of the project's recipes. A file that names another policy for a slot discards the options that
/// the slot had for the previous policy. Errors: bad input, with file and line; a recipe that extends itself, directly
/// or through others.
[[nodiscard]] Result<LoadedRecipe> load_recipe(std::string_view name_or_path,
                                               const std::vector<config::Override>& overrides,
                                               const config::Project& project, Unfit unfit = Unfit::Refused);
/// The same from text, for tests and embedded defaults; `file` is only its name in messages. It may extend recipes of
/// `project`.
[[nodiscard]] Result<LoadedRecipe> recipe_from_text(std::string_view text, const std::string& file,
                                                    const std::vector<config::Override>& overrides,
                                                    const config::Project& project = config::Project({}),
                                                    Unfit unfit = Unfit::Refused);

/// Whether this override was applied rather than ignored.
[[nodiscard]] bool took(const LoadedRecipe& loaded, const config::Override& override_);

/// Where a section's key was stated: under its full name, or under the shorthand without "prefill" or "decode".
[[nodiscard]] std::string place_of(const config::Origins& origins, const std::string& section, std::string_view key);

/// The overrides of `--set`, split into those of the scenario and those of the recipe. Every key belongs to exactly
/// one of the two and is given once.
struct SplitOverrides {
  std::vector<config::Override> scenario;
  std::vector<config::Override> recipe;
};
[[nodiscard]] Result<SplitOverrides> split_overrides(const std::vector<config::Override>& overrides);

}  // namespace wattle::systems
