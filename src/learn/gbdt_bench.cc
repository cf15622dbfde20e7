// One decision's predictions from 1,000 trees of depth 6: the table compiled from them, and XGBoost's own C API on the
// same model; and one decision whole, by lines, by the table and by lines with a table on top.
#include <benchmark/benchmark.h>
#include <xgboost/c_api.h>

#include <array>
#include <string>
#include <vector>

#include "base/random.h"
#include "learn/gbdt_trainer.h"
#include "predict/gbdt/trees.h"
#include "predict/linear_fit.h"

namespace wattle::learn {
namespace {

constexpr std::array<float, 5> kClocks{1005, 1095, 1200, 1305, 1410};
constexpr std::int32_t kRows = 997;

const std::vector<predict::StepSample>& samples() {
  static const auto drawn = [] {
    RandomStream random(1, "gbdt bench");
    std::vector<predict::StepSample> samples;
    for (int i = 0; i < 4'000; ++i) {
      const auto clock = static_cast<std::int32_t>(kClocks[random.below(5)]);
      StepShape shape;
      shape.decode_requests = 1 + static_cast<std::int32_t>(random.below(1'000));
      shape.decode_kv_tokens = static_cast<std::int64_t>(random.below(500'000));
      const double ms = 1410.0 / clock * (6.0 + 2.5 * (1 + shape.decode_requests / 128)) +
                        4e-5 * static_cast<double>(shape.decode_kv_tokens) + 0.3 * random.normal();
      samples.push_back({MegaHertz{clock}, shape, Span::from_seconds(ms * 1e-3)});
      StepShape prompt;
      prompt.prefill_tokens = 64 + i;
      samples.push_back({MegaHertz{clock}, prompt, Span::us(5'000 + 30 * prompt.prefill_tokens)});
    }
    return samples;
  }();
  return drawn;
}

const GbdtModels& models() {
  static const GbdtModels trained = [] {
    GbdtTraining training;
    training.prefill_rounds = 10;
    training.prefill_trees = false;
    training.held_out = 0.0;  // judged by the training data, so that training does not stop early
    return train_gbdt(samples(), training).value();
  }();
  return trained;
}

void compiled_table(benchmark::State& state) {
  const auto model = load_gbdt(models()).value();
  std::int32_t i = 0;
  for (auto _ : state) {
    i = (i + 1) % kRows;
    StepShape shape;
    shape.decode_requests = 1 + i;
    shape.decode_kv_tokens = i * 500;
    for (auto c = static_cast<std::size_t>(5 - state.range(0)); c < kClocks.size(); ++c) {
      benchmark::DoNotOptimize(model.step_time(shape, MegaHertz{static_cast<std::int32_t>(kClocks[c])}));
    }
  }
  state.counters["cells"] = static_cast<double>(model.cells());
}
BENCHMARK(compiled_table)->Arg(2)->Arg(5);

/// EcoFreq's predictions for one decision of a decode step: the time at each clock, and how far the KV cache may grow.
void decide(benchmark::State& state, const LatencyModel& model) {
  std::int32_t i = 0;
  for (auto _ : state) {
    i = (i + 1) % kRows;
    StepShape shape;
    shape.decode_requests = 1 + i;
    shape.decode_kv_tokens = i * 500;
    for (auto c = static_cast<std::size_t>(5 - state.range(0)); c < kClocks.size(); ++c) {
      const MegaHertz clock{static_cast<std::int32_t>(kClocks[c])};
      benchmark::DoNotOptimize(model.step_time(shape, clock));
      benchmark::DoNotOptimize(model.kv_tokens_within(shape, clock, Span::ms(60)));
    }
  }
}

std::shared_ptr<const predict::LinearLatency> lines() {
  static const auto fit = std::make_shared<const predict::LinearFit>(predict::fit_linear(samples()).value());
  return {fit, &fit->model};
}

void decide_by_lines(benchmark::State& state) { decide(state, *lines()); }
BENCHMARK(decide_by_lines)->Arg(2)->Arg(5);

void decide_by_table(benchmark::State& state) {
  static const auto model = load_gbdt(models()).value();
  decide(state, model);
}
BENCHMARK(decide_by_table)->Arg(2)->Arg(5);

/// gbdt-residual: lines, and a table on top of them.
void decide_by_residual(benchmark::State& state) {
  static const auto model = [] {
    GbdtTraining training;
    training.lines = lines();
    training.held_out = 0.0;
    return load_latency(train_gbdt(samples(), training).value(), training.lines).value();
  }();
  decide(state, *model);
}
BENCHMARK(decide_by_residual)->Arg(2)->Arg(5);

void compile_table(benchmark::State& state) {
  const auto prefill = predict::LinearBooster::from_xgboost(models().prefill_model, 2).value();
  const auto trees = predict::GbdtTrees::from_xgboost(models().decode_model).value();
  for (auto _ : state) benchmark::DoNotOptimize(predict::GbdtLatency::make(prefill, trees));
}
BENCHMARK(compile_table)->Unit(benchmark::kMillisecond);

void xgboost_c_api(benchmark::State& state) {
  BoosterHandle booster = nullptr;
  XGBoosterCreate(nullptr, 0, &booster);
  XGBoosterLoadModelFromBuffer(booster, models().decode_model.data(), models().decode_model.size());
  XGBoosterSetParam(booster, "nthread", "1");
  const auto n = static_cast<std::size_t>(state.range(0));
  std::vector<float> x(3 * n);
  const std::string array = R"({"data": [)" + std::to_string(reinterpret_cast<std::uintptr_t>(x.data())) +
                            R"(, true], "shape": [)" + std::to_string(n) + R"(, 3], "typestr": "<f4", "version": 3})";
  const char* const config =
      R"({"type": 0, "training": false, "cache_id": 0, "iteration_begin": 0, "iteration_end": 0, "missing": NaN, "strict_shape": false})";
  std::int32_t i = 0;
  for (auto _ : state) {
    i = (i + 1) % kRows;
    for (std::size_t c = 0; c < n; ++c) {
      x[3 * c] = kClocks[5 - n + c];
      x[3 * c + 1] = static_cast<float>(1 + i);
      x[3 * c + 2] = static_cast<float>(i * 500);
    }
    const bst_ulong* shape = nullptr;
    bst_ulong dimensions = 0;
    const float* out = nullptr;
    if (XGBoosterPredictFromDense(booster, array.c_str(), config, nullptr, &shape, &dimensions, &out) != 0) {
      state.SkipWithError(XGBGetLastError());
      break;
    }
    benchmark::DoNotOptimize(out);
  }
  XGBoosterFree(booster);
}
BENCHMARK(xgboost_c_api)->Arg(2)->Arg(5);

}  // namespace
}  // namespace wattle::learn
