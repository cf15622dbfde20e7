#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "predict/linear_fit.h"
#include "predict/prompt_features.h"

namespace wattle::predict {
namespace {

/// The published grid with a staircase at 128 and 256, `clocks` clocks.
std::vector<StepSample> profile(int clocks) {
  std::vector<StepSample> samples;
  for (int i = 0; i < clocks; ++i) {
    const MegaHertz clock{1005 + 90 * i};
    const auto add = [&](std::int32_t batch, std::int64_t kv, std::int64_t tokens) {
      const double tile = batch > 256 ? 1.3 : batch > 128 ? 1.15 : 1.0;
      const double ns = 9e6 * tile + 2e4 * batch + 60.0 * static_cast<double>(kv) + 5e4 * static_cast<double>(tokens);
      StepSample s;
      s.clock = clock;
      s.shape.decode_requests = batch;
      s.shape.decode_kv_tokens = kv;
      s.shape.prefill_tokens = tokens;
      s.duration = Span(static_cast<std::int64_t>(ns * 1410.0 / clock.value()));
      samples.push_back(s);
    };
    for (std::int32_t k = 8; k <= 1024; k += k < 128 ? 8 : 128) {
      for (std::int64_t kv = 20'000; kv <= 400'000; kv += 76'000) {
        add(k, kv, 0);
        add(k + 1, kv, 0);
      }
    }
    for (std::int64_t tokens = 64; tokens <= 8'192; tokens += 256) add(0, 0, tokens);
  }
  return samples;
}

LinearLatency model() { return std::move(fit_linear(profile(5))->model); }

StepShape shape_at(std::int32_t i) {
  StepShape shape;
  shape.decode_requests = 1 + i % 500;
  shape.decode_kv_tokens = 700 * shape.decode_requests;
  return shape;
}

/// What a gateway does with a chat request's text: of so many bytes.
void prompt_features_of_json(benchmark::State& state) {
  std::string text = R"([{"role":"user","content":")";
  while (text.size() < static_cast<std::size_t>(state.range(0))) text += "please summarise this report in ten lines; ";
  text += "\"}]";
  for (auto _ : state) benchmark::DoNotOptimize(features_of_json({500, 1000, "tenant"}, text));
}
BENCHMARK(prompt_features_of_json)->Arg(100)->Arg(2'000)->Arg(60'000)->Arg(1'000'000);

void linear_step_time(benchmark::State& state) {
  const auto m = model();
  const MegaHertz clock{static_cast<std::int32_t>(state.range(0))};
  std::int32_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(m.step_time(shape_at(++i), clock));
}
BENCHMARK(linear_step_time)->Arg(1005)->Arg(1365)->Arg(1300);  // first, last, between two

void linear_kv_tokens_within(benchmark::State& state) {
  const auto m = model();
  std::int32_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(m.kv_tokens_within(shape_at(++i), MegaHertz{1005}, Span::ms(60)));
}
BENCHMARK(linear_kv_tokens_within);

void fit(benchmark::State& state) {
  const auto samples = profile(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(fit_linear(samples));
}
BENCHMARK(fit)->Arg(2)->Arg(5)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace wattle::predict
