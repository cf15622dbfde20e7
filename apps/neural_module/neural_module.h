#pragma once
// The neural forecasters and the length network as a module that is loaded on demand: libtorch takes 0.3 s and 170 MB
// to load, which other subcommands should not pay.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "neural/length_net.h"
#include "predict/forecast/forecaster.h"

namespace wattle::apps {

/// The task of a forecaster; other parameters are the module's.
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

/// The module's symbol of this name. Errors: a build without the module, or libtorch is not installed.
[[nodiscard]] Result<void*> neural_symbol(const char* name);

}  // namespace wattle::apps
