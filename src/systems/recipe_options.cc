#include "systems/recipe_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "config/records.h"
#include "journal/names.h"
#include "systems/greenserve.h"

namespace wattle::config {

template <>
struct Codec<Mode> : NamedCodec<Mode, Codec<Mode>> {
  static constexpr const auto& names() { return journal::kModeNames; }
};

}  // namespace wattle::config

namespace wattle::systems {

namespace {

using config::choice;
using config::Option;
using config::option;

const char* purpose(SlotKind slot) {
  switch (slot) {
    case SlotKind::Admission:
      return "Policy that admits, holds or rejects requests";
    case SlotKind::Queueing:
      return "Policy that orders held requests";
    case SlotKind::Routing:
      return "Policy that chooses a request's instance";
    case SlotKind::Frequency:
      return "Policy that chooses an instance's clock";
    case SlotKind::Scaling:
      return "Policy that starts and drains instances";
  }
  return "";
}

std::vector<Option<calibrate::PredictorOptions>> predictor_options() {
  using P = calibrate::PredictorOptions;
  std::vector<Option<P>> all{
      choice("form", &P::form, {"linear", "linear-published", "gbdt", "gbdt-published", "gbdt-residual", "ips"},
             "Model that predicts step times. linear: piecewise linear in batch, KV tokens and prompt tokens, with "
             "prompt attention and the engine's host time (based on VoltanaLLM); gbdt: boosted trees (GreenServe); "
             "gbdt-residual: linear plus trees on its residuals; ips: throttLL'eM's model M. linear-published and "
             "gbdt-published use only the features and forms of their papers"),
  };
  const auto learning = learning_options();
  all.insert(all.end(), learning.begin(), learning.end());
  return all;
}

std::vector<Option<LengthOptions>> length_options() {
  return {
      choice("source", &LengthOptions::source, {"none", "oracle", "classes", "confusion", "learned", "trees"},
             "What predicts output lengths. none: nothing; oracle: the true length plus the error error_p95 (simulator "
             "only); classes: a five-class classifier as accurate as the published BERT proxy model (simulator only); "
             "confusion: a classifier into the output sizes of [classes] or [classify] that is right with probability "
             "accuracy (simulator only); learned: online, by tenant and prompt length; trees: boosted trees on hashed "
             "prompt words, prompt length, tenant, model and max_tokens, retrained every 500 answers (simulated "
             "prompts have no words)"),
      option("error_p95", &LengthOptions::error_p95, "", {0, 10},
             "oracle: Gaussian prediction error, given as the relative error that 95 % of predictions stay within. 0: "
             "exact"),
      option("quantile", &LengthOptions::quantile, "", {0.001, 0.999},
             "learned, trees: share of answers that should be no longer than their prediction. classes: the same, but "
             "only 0.5 or (for any higher value) 0.9"),
      option("fall_back", &LengthOptions::fall_back,
             "Predict the quantile of all lengths seen so far while that is no less accurate, and where there is no "
             "prediction. No effect on confusion, which predicts classes"),
      option("accuracy", &LengthOptions::accuracy, "", {0, 1},
             "confusion: share of answers that are predicted in their own class"),
      choice("errors", &LengthOptions::errors, {"neighbours", "measured"},
             "confusion: which class a wrong prediction names. neighbours: one next to the right class; measured: as "
             "often as the BERT proxy model confused them, for three classes"),
      option("trees", &LengthOptions::trees,
             "trees: initial model, a file written by `wattle forecast length train` (looked up next to the recipe). "
             "Empty: no predictions until 200 answers have finished"),
  };
}

std::vector<Option<control::EmergencyOptions>> emergency_options() {
  using E = control::EmergencyOptions;
  return {
      option("mode", &E::mode,
             "What happens when requests are predicted to miss their deadlines. enforce: in this order, serve waiting "
             "requests by deadline, raise clocks, move requests that have not started to another instance, return them "
             "to their clients; shadow: only journal these steps; off: nothing"),
      option("period_ms", &E::period, "ms", {1, 3'600'000}, "Time between two checks of the waiting requests"),
      option("boost_s", &E::boost, "s", {0, 86'400},
             "How long the clock stays at the maximum after the last predicted miss"),
      option("squash_after_s", &E::squash_after, "s", {0, 86'400},
             "A request that is predicted to miss its deadline, has not started and has waited this long since its "
             "arrival is returned with status 503 and Retry-After. none: never"),
      option("squash_after_objectives", &E::squash_after_objectives, "", {0, 1'000'000},
             "The same limit as a multiple of the time that its objectives leave until its first token (its TTFT "
             "objective, or its E2E objective less the decode time). The earlier of both limits applies. none: no such "
             "limit"),
      option("overflow", &E::overflow,
             "A request that does not fit in its class's pool goes to a larger one, in any mode. Off: it is held"),
  };
}

std::vector<Option<control::AnswerOptions>> answer_options() {
  using A = control::AnswerOptions;
  return {
      option("late", &A::late, "", {0, 0.5},
             "The newest answers show how long mean gaps may be so that slo.e2e_ms is met; all but this share of them "
             "allow the limit to which clocks and batches keep. 0: slo.e2e_ms limits no gaps"),
      option("first_token", &A::first_token, "", {0.001, 0.9},
             "With answers.late: first tokens may take this share of slo.e2e_ms, or slo.ttft_ms if that is shorter")};
}

Option<Recipe> predictor_file() {
  auto file = option("file", &calibrate::PredictorOptions::file,
                     "Latency and power model written by `wattle fit PROFILE`, as a path or next to the recipe. Empty: "
                     "the simulated engine is profiled instead");
  std::vector<Option<Recipe>> one;
  config::append<Recipe>(one, "predictor_", {&Recipe::predictor}, {file});
  return one.front();
}

/// An option of the members' policies: sets it where the policy has it.
Option<Recipe> policy_option(const Section& section, const Option<std::any>& model, const Recipe& chosen) {
  Option<Recipe> o;
  static_cast<config::OptionSpec&>(o) = model;
  o.key = section.name + "." + model.key;
  o.shorthand = section.members.size() > 1;
  struct Target {
    PolicyChoice Recipe::*member;
    const PolicyEntry* entry;
    const Option<std::any>* option;
  };
  std::vector<Target> targets;
  for (const auto member : section.members) {
    const PolicyEntry& entry = entry_of(section.slot, chosen.*member);
    const auto found = std::ranges::find(entry.options, model.key, &Option<std::any>::key);
    if (found != entry.options.end()) targets.push_back({member, &entry, &*found});
  }
  o.set = [targets](Recipe& recipe, const config::Value& value) {
    for (const Target& t : targets) {
      PolicyChoice& choice = recipe.*t.member;
      if (!choice.options.has_value()) choice.options = t.entry->defaults;
      t.option->set(choice.options, value);
    }
  };
  o.get = [first = targets.front()](const Recipe& recipe) {
    return first.option->get(options_in(*first.entry, recipe.*first.member));
  };
  return o;
}

}  // namespace

std::string needed_by(const Recipe& recipe, std::string_view key) {
  const auto of_source = [&](std::string_view source) {
    return recipe.length.source == source
               ? std::string()
               : fmt::format("length.source = \"{}\"; it is \"{}\"", source, recipe.length.source);
  };
  if (key == "length.accuracy" || key == "length.errors") return of_source("confusion");
  if (key == "length.error_p95") return of_source("oracle");
  if (key == "length.trees") return of_source("trees");
  const bool of_emergencies = key.starts_with("emergency.") && key != "emergency.mode" && key != "emergency.overflow";
  if (of_emergencies && recipe.emergency.mode == Mode::Off) {
    return "emergency.mode = \"enforce\" or \"shadow\"; it is \"off\"";
  }
  return {};
}

const std::vector<Section>& sections() {
  static const std::vector<Section> all{
      {"frequency", SlotKind::Frequency, {&Recipe::prefill_frequency, &Recipe::decode_frequency}},
      {"frequency.prefill", SlotKind::Frequency, {&Recipe::prefill_frequency}},
      {"frequency.decode", SlotKind::Frequency, {&Recipe::decode_frequency}},
      {"routing", SlotKind::Routing, {&Recipe::route_prefill, &Recipe::route_decode}},
      {"routing.prefill", SlotKind::Routing, {&Recipe::route_prefill}},
      {"routing.decode", SlotKind::Routing, {&Recipe::route_decode}},
      {"queueing", SlotKind::Queueing, {&Recipe::queueing}},
      {"admission", SlotKind::Admission, {&Recipe::admission}},
      {"scaling", SlotKind::Scaling, {&Recipe::scaling}},
  };
  return all;
}

const std::vector<Option<Recipe>>& general_options() {
  static const std::vector<Option<Recipe>> options = [] {
    std::vector<Option<Recipe>> all{
        option("name", &Recipe::name, "Name shown in reports. Empty: the file's name"),
        option("description", &Recipe::description, "One or two sentences shown by `wattle recipes`"),
    };
    all.push_back(predictor_file());
    config::append<Recipe>(all, "predictor.", {&Recipe::predictor}, predictor_options());
    config::append<Recipe>(all, "length.", {&Recipe::length}, length_options());
    config::append<Recipe>(all, "emergency.", {&Recipe::emergency}, emergency_options());
    config::append<Recipe>(all, "answers.", {&Recipe::answers}, answer_options());
    config::append<Recipe>(all, "classify.", {&Recipe::classes}, config::class_options());
    config::append<Recipe>(
        all, "classify.", {&Recipe::classes},
        {option("one", &config::ClassOptions::one,
                "Treat all requests as one class, even if the scenario has [classes]"),
         option("by_tier", &config::ClassOptions::by_tier,
                "Make the requests of each [[tier]] classes of their own, with separate pools where these take less "
                "power than one pool at the strictest objectives. Used by policy dynamollm. Off: tiers share pools")});
    return all;
  }();
  return options;
}

std::vector<Option<Recipe>> head_options(const Section& section) {
  std::vector<Option<PolicyChoice>> head{
      choice("policy", &PolicyChoice::policy, registry().names(section.slot), purpose(section.slot)),
      option("mode", &PolicyChoice::mode,
             "enforce: decisions are applied; shadow: decisions are only journaled; off: the policy is not called"),
  };
  std::vector<Option<Recipe>> all;
  for (const Option<PolicyChoice>& part : head) {
    Option<Recipe> o;
    static_cast<config::OptionSpec&>(o) = part;
    o.key = section.name + "." + part.key;
    o.shorthand = section.members.size() > 1;
    o.set = [members = section.members, set = part.set](Recipe& recipe, const config::Value& v) {
      for (const auto member : members) set(recipe.*member, v);
    };
    o.get = [first = section.members.front(), get = part.get](const Recipe& recipe) { return get(recipe.*first); };
    all.push_back(std::move(o));
  }
  if (section.slot == SlotKind::Scaling) {
    all.push_back(option("scaling.period_s", &Recipe::scaling_period, "s", {0.001, 86'400},
                         "Time between two calls of the policy"));
    all.push_back(option("scaling.surge", &Recipe::scaling_surge, "", {0, 1000},
                         "Also plan immediately when the request rate over a sixth of a period exceeds this multiple "
                         "of the previous period's rate. 0: only when a period ends (papers)"));
    all.push_back(option("scaling.at_once", &Recipe::scaling_at_once, "changes", {1, 1e6},
                         "Maximum number of starts, drains, re-shards and moves in progress at the same time"));
    all.push_back(option("scaling.profiled_together", &Recipe::profiled_together, "instances", {1, 64},
                         "Number of instances that share the load while load profiles are measured; each request goes "
                         "to the one with the fewest. 1: a single instance (paper)"));
    all.push_back(option("scaling.profiled_quantile", &Recipe::profiled_quantile, "", {0.5, 0.999},
                         "Share of requests that must meet their objectives for a load to count as carried in load "
                         "profiles. none: 0.99; for workers at sites 0.9 (FREESH: the mean latency has to meet them)"));
  }
  return all;
}

std::vector<Option<Recipe>> recipe_options(const Recipe& chosen) {
  std::vector<Option<Recipe>> all = general_options();
  for (const Section& section : sections()) {
    for (auto& o : head_options(section)) all.push_back(std::move(o));
    std::set<std::string> known;
    for (const auto member : section.members) {
      for (const auto& o : entry_of(section.slot, chosen.*member).options) {
        if (known.insert(o.key).second) all.push_back(policy_option(section, o, chosen));
      }
    }
  }
  return all;
}

const std::vector<config::OptionSpec>& recipe_keys() {
  static const std::vector<config::OptionSpec> keys = [] {
    std::vector<config::OptionSpec> all;
    std::set<std::string> known;
    const auto add = [&](config::OptionSpec spec) {
      if (known.insert(spec.key).second) all.push_back(std::move(spec));
    };
    config::OptionSpec extends;
    extends.key = "extends";
    extends.description = "Recipe to start from: a name, or a file in the same folder";
    add(extends);
    for (const auto& o : general_options()) add(o);
    for (const Section& section : sections()) {
      for (const auto& o : head_options(section)) add(o);
      for (const PolicyEntry& entry : registry().entries()) {
        if (entry.slot != section.slot) continue;
        for (config::OptionSpec spec : entry.options) {
          spec.key = section.name + "." + spec.key;
          add(spec);
        }
      }
    }
    return all;
  }();
  return keys;
}

}  // namespace wattle::systems
