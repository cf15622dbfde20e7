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
