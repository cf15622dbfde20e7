#include "neural_module/neural_module.h"

#include <string_view>

#include "neural/sequence.h"

extern "C" wattle::predict::Forecaster* wattle_make_forecaster(const char* kind, const wattle::apps::NeuralTask* task) {
  using wattle::neural::SequenceOptions;
  SequenceOptions options;
  options.horizon = task->horizon;
  options.window = task->window;
  options.period = task->period;
  options.updates = task->updates;
  options.hidden = task->hidden;
  options.batch = task->batch;
  options.seed = task->seed;
  const std::string_view name(kind);
  if (name == "gru-graph") {
    options.encoder = SequenceOptions::Encoder::GruGraph;
  } else if (name != "lstm") {
    return nullptr;
  }
  return wattle::neural::make_sequence(options).release();
}

extern "C" void wattle_train_length_net(std::span<const wattle::neural::LengthExample> examples,
                                        const wattle::neural::LengthNetOptions& options,
                                        wattle::Result<std::unique_ptr<wattle::neural::LengthNet>>& out) {
  out = wattle::neural::train_length_net(examples, options);
}

extern "C" void wattle_load_length_net(std::string_view bytes,
                                       wattle::Result<std::unique_ptr<wattle::neural::LengthNet>>& out) {
  out = wattle::neural::load_length_net(bytes);
}
