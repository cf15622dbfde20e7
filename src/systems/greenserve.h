#pragma once
// What GreenServe adds to VoltanaLLM's policies: options of EcoFreq and EcoRoute, and predictors that learn on.
#include <vector>

#include "calibrate/beliefs.h"
#include "config/option.h"
#include "policy/frequency/eco_freq.h"
#include "policy/routing/eco_route.h"

namespace wattle::systems {

/// Case 2(b) of EcoRoute.
[[nodiscard]] config::Option<policy::EcoRouteOptions> beyond_spread();
/// Of the window ablation.
[[nodiscard]] config::Option<policy::EcoFreqOptions> decision_window();
/// How a recipe's [predictor] learns from what is served.
[[nodiscard]] std::vector<config::Option<calibrate::PredictorOptions>> learning_options();

}  // namespace wattle::systems
