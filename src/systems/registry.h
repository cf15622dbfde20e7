#pragma once
// The one list of policies by name. Each system's file registers what it consists of: name, options, needs, how it is
// made.
#include <any>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/option.h"
#include "model/length.h"
#include "plan/load_table.h"
#include "policy/admission/admission.h"
#include "policy/frequency/frequency.h"
#include "policy/queueing/queueing.h"
#include "policy/routing/routing.h"
#include "policy/scaling/scaling.h"
#include "systems/recipe.h"
#include "systems/scaling_inputs.h"

namespace wattle::systems {

enum class SlotKind : std::uint8_t { Admission, Queueing, Routing, Frequency, Scaling };

/// What making a policy may look at besides its own options.
struct Making {
  const Recipe& recipe;
  std::string section;                                 ///< of the recipe: "routing.decode"
  std::shared_ptr<const LengthModel> length;           ///< what is believed of output lengths; may be null
  const InstanceSpec* spec = nullptr;                  ///< frequency: whose clock it will choose
  std::shared_ptr<policy::AdmissionPolicy> admission;  ///< frequency: what admits to the fleet; null: not in here
  ScalingInputs scaling = {};                          ///< scaling
  /// The profile of the fleet's engines; null unless Needs::load_profile.
  std::shared_ptr<const plan::LoadTable> loads = nullptr;

  /// An error at a key of this section.
  [[nodiscard]] std::unexpected<Error> refuse(std::string_view key, const std::string& problem) const;
};

/// What has to be there before a policy can decide.
struct Needs {
  bool latency = false;          ///< Beliefs::latency
  bool request_latency = false;  ///< Beliefs::request
  bool step_reports = false;     ///< of every instance
  bool load_profile = false;     ///< plan::LoadTable
  bool sites = false;            ///< SiteFleet
};

/// Where an instance's clock is decided.
enum class Host : std::uint8_t {
  Node,       ///< beside the GPU, one policy per instance
  Admission,  ///< where requests are admitted: the policy that fills that slot of the same name chooses clocks, too
};

struct PolicyEntry {
  SlotKind slot{};
  std::string name;
  std::string description;
  std::vector<config::Option<std::any>> options;
  std::any defaults;
  Needs needs;
  Host host = Host::Node;
  std::function<Result<std::shared_ptr<policy::Policy>>(const std::any&, const Making&)> make;
  /// What is wrong with the options whatever the fleet: {key, problem}, or empty.
  std::function<std::pair<std::string, std::string>(const std::any&)> problem;
  /// May an instance of Making::spec be part of the fleet?
  std::function<Result<void>(const std::any&, const Making&)> admits;
  /// The clocks it may choose on such an instance, which its predictor has to know; ascending.
  std::function<std::vector<MegaHertz>(const std::any&, const InstanceSpec&)> clocks;
  /// How far a step may outlast its prediction (control::Throttle).
  std::function<Span(const std::any&)> overrun_slack;
  /// Does it need Beliefs::power of such an instance under these options?
  std::function<bool(const std::any&, Role)> weighs_power;
  /// The option that keeps attainment at the cost of energy as it grows: a share in [0, 0.95] or a clock; empty: none
  /// (reserve.h).
  std::string reserve;
  /// The one that at colocated instances takes its place where it is set, and keeps more as it falls to 0; empty: none.
  std::string colocated_reserve;
};

/// An entry whose options are a Record, for a system's file to complete.
template <typename Record>
class Registration {
 public:
  Registration(PolicyEntry& entry, const std::vector<config::Option<Record>>& options) : entry_(entry) {
    entry_.defaults = Record{};
    for (const auto& typed : options) {
      config::Option<std::any> erased;
      static_cast<config::OptionSpec&>(erased) = typed;
      erased.set = [set = typed.set](std::any& to, const config::Value& value) {
        set(std::any_cast<Record&>(to), value);
      };
      erased.get = [get = typed.get](const std::any& from) { return get(std::any_cast<const Record&>(from)); };
      entry_.options.push_back(std::move(erased));
    }
  }
  /// Any policy; a slot takes what can fill it.
  template <typename Make>
  Registration& makes(Make make) {
    entry_.make = [make](const std::any& options, const Making& making) -> Result<std::shared_ptr<policy::Policy>> {
      auto made = make(std::any_cast<const Record&>(options), making);
      if (!made) return std::unexpected(made.error());
      return std::shared_ptr<policy::Policy>(std::move(*made));
    };
    return *this;
  }
  Registration& needs(const Needs& needs) { return entry_.needs = needs, *this; }
  Registration& reserve(std::string key) { return entry_.reserve = std::move(key), *this; }
  Registration& colocated_reserve(std::string key) { return entry_.colocated_reserve = std::move(key), *this; }
  Registration& hosted_by(Host host) { return entry_.host = host, *this; }
  template <typename F>
  Registration& problem(F f) {
    entry_.problem = [f](const std::any& o) { return f(std::any_cast<const Record&>(o)); };
    return *this;
  }
  template <typename F>
  Registration& admits(F f) {
    return entry_.admits = typed(f), *this;
  }
  template <typename F>
  Registration& clocks(F f) {
    entry_.clocks = [f](const std::any& o, const InstanceSpec& spec) {
      return f(std::any_cast<const Record&>(o), spec);
    };
    return *this;
  }
  template <typename F>
  Registration& weighs_power(F f) {
    entry_.weighs_power = [f](const std::any& o, Role role) { return f(std::any_cast<const Record&>(o), role); };
    return *this;
  }
  template <typename F>
  Registration& overrun_slack(F f) {
    entry_.overrun_slack = [f](const std::any& o) { return f(std::any_cast<const Record&>(o)); };
    return *this;
  }

 private:
  template <typename F>
  static auto typed(F f) {
    return [f](const std::any& o, const Making& making) { return f(std::any_cast<const Record&>(o), making); };
  }
  PolicyEntry& entry_;
};

/// A policy without options.
struct NoOptions {};

class Registry {
 public:
  template <typename Record = NoOptions>
  Registration<Record> add(SlotKind slot, std::string name, std::string description,
                           const std::vector<config::Option<Record>>& options = {}) {
    PolicyEntry& entry = entries_.emplace_back();
    entry.slot = slot;
    entry.name = std::move(name);
    entry.description = std::move(description);
    return Registration<Record>(entry, options);
  }

  /// Null: none of that name in such slots.
  [[nodiscard]] const PolicyEntry* find(SlotKind slot, std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names(SlotKind slot) const;
  [[nodiscard]] const std::deque<PolicyEntry>& entries() const { return entries_; }

 private:
  std::deque<PolicyEntry> entries_;
};

[[nodiscard]] const Registry& registry();

/// The entry of a choice whose name has been checked.
[[nodiscard]] const PolicyEntry& entry_of(SlotKind slot, const PolicyChoice& choice);
/// Its options, the entry's defaults where none are set.
[[nodiscard]] const std::any& options_in(const PolicyEntry& entry, const PolicyChoice& choice);

}  // namespace wattle::systems
