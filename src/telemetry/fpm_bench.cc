// The agent's hot path: one message per engine iteration.
#include <benchmark/benchmark.h>

#include "telemetry/fpm.h"

namespace wattle::telemetry {
namespace {

std::vector<std::uint8_t> example() {
  StepReport r;
  r.shape = {128, 90'000, 2, 2048, 4'000'000};
  r.waiting_requests = 3;
  r.kv_tokens = 100'000;
  r.oldest_scheduled_arrival = Instant(1);
  std::vector<std::uint8_t> bytes;
  encode_fpm(to_fpm(r, "worker-0", Instant(1'000'000)), bytes);
  return bytes;
}

void decode_to_report(benchmark::State& state) {
  const auto bytes = example();
  for (auto _ : state) {
    const auto message = decode_fpm(bytes);
    benchmark::DoNotOptimize(to_step_report(*message, InstanceId(0), Instant(5)));
  }
}
BENCHMARK(decode_to_report);

void encode_report(benchmark::State& state) {
  const auto bytes = example();
  const auto message = decode_fpm(bytes).value();
  std::vector<std::uint8_t> out;
  for (auto _ : state) {
    out.clear();
    encode_fpm(message, out);
    benchmark::DoNotOptimize(out.data());
  }
}
BENCHMARK(encode_report);

}  // namespace
}  // namespace wattle::telemetry
