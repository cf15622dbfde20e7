#pragma once
// The neural forecasters and the length network as a module loaded when asked for: libtorch takes 0.3 s and 170 MB to
// load, which no other subcommand should pay.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "neural/length_net.h"
#include "predict/forecast/forecaster.h"

namespace wattle::apps {

/// What a forecaster is to be made for; the rest is the module's choice.
struct NeuralTask {
  std::size_t horizon = 6;
  std::size_t window = 48;
  std::size_t period = 0;
  std::size_t updates = 1000;
  std::size_t hidden = 32;
  std::size_t batch = 32;
  std::uint64_t seed = 1;
};

/// "wattle_make_forecaster" in the module: `kind` is "lstm" or "gru-graph"; null for any other. The caller owns it.
using MakeForecaster = predict::Forecaster*(const char* kind, const NeuralTask* task);
inline constexpr const char* kMakeForecaster = "wattle_make_forecaster";

/// "wattle_train_length_net" and "wattle_load_length_net": neural/length_net.h's functions.
using TrainLengths = void(std::span<const neural::LengthExample> examples, const neural::LengthNetOptions& options,
                          Result<std::unique_ptr<neural::LengthNet>>& out);
inline constexpr const char* kTrainLengths = "wattle_train_length_net";
using LoadLengths = void(std::string_view bytes, Result<std::unique_ptr<neural::LengthNet>>& out);
inline constexpr const char* kLoadLengths = "wattle_load_length_net";

/// What the module has under this name. Errors: this build has none, or libtorch is not there.
[[nodiscard]] Result<void*> neural_symbol(const char* name);

}  // namespace wattle::apps
