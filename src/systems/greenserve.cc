// GreenServe: VoltanaLLM's EcoFreq and EcoRoute with another reading of case 2(b), beliefs that learn on from served
// steps, and the ablation that decides by windows.
#include "systems/greenserve.h"

#include <array>

namespace wattle::config {

template <>
struct Codec<policy::BeyondSpread> : NamedCodec<policy::BeyondSpread, Codec<policy::BeyondSpread>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, policy::BeyondSpread>>(
        {{"lowest-resulting", policy::BeyondSpread::LowestResulting},
         {"lowest-current", policy::BeyondSpread::LowestCurrent}});
  }
};

}  // namespace wattle::config

namespace wattle::systems {

using config::option;

config::Option<policy::EcoRouteOptions> beyond_spread() {
  return option("beyond_spread", &policy::EcoRouteOptions::beyond_spread,
                "Case 2(b): the instance with the lowest clock after (GreenServe) or before (VoltanaLLM) it gets the "
                "request");
}

config::Option<policy::EcoFreqOptions> decision_window() {
  return option("window_ms", &policy::EcoFreqOptions::window, "ms", {0, 3'600'000},
                "Decide at most this often; 0: every iteration");
}

std::vector<config::Option<calibrate::PredictorOptions>> learning_options() {
  using P = calibrate::PredictorOptions;
  return {
      option("online", &P::online, "Learn on from served steps; worse models are rolled back"),
      option("refit", &P::refit, "online: off: measure how well steps are predicted, learn nothing"),
      option("refit_every", &P::refit_every, "samples", {10, 10'000'000}, "online: new samples between two refits"),
      option("ring", &P::ring, "samples", {10, 10'000'000}, "online: newest samples kept to learn from"),
      option("window", &P::window, "samples", {4, 10'000'000},
             "online: newest samples that judge a model; at most ring"),
  };
}

}  // namespace wattle::systems
