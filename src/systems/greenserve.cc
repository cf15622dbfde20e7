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
                "Where a request goes in case 2(b). lowest-resulting: to the instance with the lowest clock after it "
                "is placed (GreenServe); lowest-current: to the one with the lowest clock before (VoltanaLLM)");
}

config::Option<policy::EcoFreqOptions> decision_window() {
  return option("window_ms", &policy::EcoFreqOptions::window, "ms", {0, 3'600'000},
                "Minimum time between two decisions. 0: decide before every iteration");
}

std::vector<config::Option<calibrate::PredictorOptions>> learning_options() {
  using P = calibrate::PredictorOptions;
  return {
      option("online", &P::online,
             "Keep learning from served steps. A new model that predicts worse than the one in use is discarded"),
      option("refit", &P::refit, "With online: fit new models. Off: only measure the prediction error"),
      option("refit_every", &P::refit_every, "samples", {10, 10'000'000},
             "With online: number of new samples between two refits"),
      option("ring", &P::ring, "samples", {10, 10'000'000}, "With online: number of most recent samples to learn from"),
      option("window", &P::window, "samples", {4, 10'000'000},
             "With online: number of most recent samples on which models are compared. At most ring"),
  };
}

}  // namespace wattle::systems
