#include "systems/recipe_options.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "config/records.h"
#include "systems/greenserve.h"

namespace wattle::config {

template <>
struct Codec<Mode> : NamedCodec<Mode, Codec<Mode>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, Mode>>(
        {{"enforce", Mode::Enforce}, {"shadow", Mode::Shadow}, {"off", Mode::Off}});
  }
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
      return "What admits, holds or rejects a request";
    case SlotKind::Queueing:
      return "Order of held requests";
    case SlotKind::Routing:
      return "What chooses a request's instance";
    case SlotKind::Frequency:
      return "What chooses an instance's clock";
    case SlotKind::Scaling:
      return "What starts and drains instances";
  }
  return "";
}

std::vector<Option<calibrate::PredictorOptions>> predictor_options() {
  using P = calibrate::PredictorOptions;
  std::vector<Option<P>> all{
      choice("form", &P::form, {"linear", "linear-published", "gbdt", "gbdt-published", "gbdt-residual", "ips"},
             "What is believed of step times: VoltanaLLM's lines, GreenServe's trees or throttLL'eM's model M; "
             "published: by the papers' features and forms alone (linear knows ranges of prompts, their attention, and "
             "what an engine's host takes beside its GPU); residual: trees on what the lines leave over"),
  };
  const auto learning = learning_options();
  all.insert(all.end(), learning.begin(), learning.end());
  return all;
}

std::vector<Option<LengthOptions>> length_options() {
  return {
      choice("source", &LengthOptions::source, {"none", "oracle", "classes", "confusion", "learned", "trees"},
             "What predicts output lengths; oracle: the simulator's truth, with an error of error_p95; classes: a "
             "five-class classifier as good as the measured BERT proxy model (simulator); confusion: a classifier into "
             "the output sizes of [classes] (or [classify]) that is right in `accuracy` of all cases (simulator); "
             "learned: online, by "
             "tenant and prompt length; trees: boosted trees over hashed words of the prompt, its length, tenant, "
             "model and cap, grown again every 500 answers (a simulated prompt has no words)"),
      option("error_p95", &LengthOptions::error_p95, "", {0, 10},
             "oracle: Gaussian error; 95 % of predictions are off by at most this share of the true length"),
      option("quantile", &LengthOptions::quantile, "", {0.001, 0.999},
             "learned, trees: share of answers that are to be no longer than predicted; classes: likewise, 0.5 or, "
             "above it, "
             "0.9"),
      option("fall_back", &LengthOptions::fall_back,
             "The quantile of all lengths seen answers while it predicts no worse, and where there is no prediction; "
             "confusion: never, it predicts classes"),
      option("accuracy", &LengthOptions::accuracy, "", {0, 1}, "confusion: share of answers put into their own class"),
      choice("errors", &LengthOptions::errors, {"neighbours", "measured"},
             "confusion: neighbours: a class next to the right one; measured: in the proportions in which the BERT "
             "proxy model erred, of three classes"),
      option("trees", &LengthOptions::trees,
             "trees: file of `wattle forecast length train` that it begins with, beside the recipe; empty: none until "
             "200 answers have ended"),
  };
}

std::vector<Option<control::EmergencyOptions>> emergency_options() {
  using E = control::EmergencyOptions;
  return {
      option(
          "mode", &E::mode,
          "enforce: where requests are predicted to miss their deadlines, what waits is served by deadline, then "
          "clocks rise, then requests that have not begun go elsewhere, then they are given back to clients; shadow: "
          "journal only"),
      option("period_ms", &E::period, "ms", {1, 3'600'000}, "Between two looks at what waits"),
      option("boost_s", &E::boost, "s", {0, 86'400}, "How long a clock stays at the highest after a predicted miss"),
      option("squash_after_s", &E::squash_after, "s", {0, 86'400},
             "A request that is predicted to miss, has not begun and has waited for so long since its arrival is given "
             "back: 503 with Retry-After; none: never"),
      option("squash_after_objectives", &E::squash_after_objectives, "", {0, 1'000'000},
             "Likewise, as a multiple of the time that its objectives leave until its first token (its TTFT objective, "
             "else its E2E objective less the answer); the sooner of both; none: never"),
      option("overflow", &E::overflow,
             "In any mode: a request that its class's pool cannot take goes to a larger one; off: it is held"),
  };
}

Option<Recipe> predictor_file() {
  auto file = option("file", &calibrate::PredictorOptions::file,
                     "A belief file of `wattle fit PROFILE`, by its path or beside the recipe, to believe "
                     "instead of profiling the simulated engine");
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

std::string_view source_of_length_key(std::string_view key) {
  if (key == "length.accuracy" || key == "length.errors") return "confusion";
  if (key == "length.error_p95") return "oracle";
  return key == "length.trees" ? "trees" : "";
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
        option("name", &Recipe::name, "Shown in reports; the file's name when absent"),
        option("description", &Recipe::description, "One or two sentences for `wattle recipes`"),
    };
    all.push_back(predictor_file());
    config::append<Recipe>(all, "predictor.", {&Recipe::predictor}, predictor_options());
    config::append<Recipe>(all, "length.", {&Recipe::length}, length_options());
    config::append<Recipe>(all, "emergency.", {&Recipe::emergency}, emergency_options());
    config::append<Recipe>(all, "classify.", {&Recipe::classes}, config::class_options());
    config::append<Recipe>(
        all, "classify.", {&Recipe::classes},
        {option("one", &config::ClassOptions::one, "One class, whatever the scenario says: requests are not sorted"),
         option(
             "by_tier", &config::ClassOptions::by_tier,
             "Requests of each [[tier]] are classes of their own, planned for in pools of their own where that takes "
             "less power than one pool at the strictest objectives; for DynamoLLM's managers. Off: one pool")});
    return all;
  }();
  return options;
}

std::vector<Option<Recipe>> head_options(const Section& section) {
  std::vector<Option<PolicyChoice>> head{
      choice("policy", &PolicyChoice::policy, registry().names(section.slot), purpose(section.slot)),
      option("mode", &PolicyChoice::mode, "enforce: decide and act; shadow: decide and journal only; off: do not ask"),
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
    all.push_back(option("scaling.period_s", &Recipe::scaling_period, "s", {0.001, 86'400}, "How often it plans"));
    all.push_back(
        option("scaling.surge", &Recipe::scaling_surge, "", {0, 1000},
               "It plans at once, too, when a sixth of a period has brought so many times what it brought in the "
               "last one; 0 (papers): when periods end"));
    all.push_back(option("scaling.at_once", &Recipe::scaling_at_once, "changes", {1, 1e6},
                         "So many starts, drains, re-shards and moves are under way at most"));
    all.push_back(option("scaling.profiled_together", &Recipe::profiled_together, "instances", {1, 64},
                         "Load profiles are measured on so many instances that share the requests, each at the one "
                         "with the fewest; 1 (paper): on one by itself"));
    all.push_back(
        option("scaling.profiled_quantile", &Recipe::profiled_quantile, "", {0.5, 0.999},
               "An instance carries a load in load profiles when so large a share of requests is within their "
               "objectives; none: 0.99, of workers at sites 0.9 (FREESH: the mean is)"));
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
    extends.description = "The recipe this one starts from: a name, or a file beside it";
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
