// Looking up and reading a year of hourly intensity.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include "base/timestamp.h"
#include "carbon/series.h"

namespace wattle::carbon {

namespace {
constexpr std::int64_t kHours = 8784;
constexpr std::int64_t kHourNs = 3'600'000'000'000;

std::string a_year() {
  std::string text = "datetime_utc,ci_direct_gco2_kwh\n";
  const std::int64_t start = *parse_timestamp("2024-01-01 00:00:00");
  for (std::int64_t h = 0; h < kHours; ++h) {
    text += fmt::format("{},{}\n", format_timestamp(start + h * kHourNs), 100 + h % 24);
  }
  return text;
}

void intensity_at(benchmark::State& state) {
  const auto series = parse_series<GramsPerKwh>(electricity_maps_direct(), a_year(), "bench");
  if (!series) {
    state.SkipWithError(series.error().message().c_str());
    return;
  }
  std::int64_t t = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(series->at(Instant(t)));
    t = (t + 7919 * kHourNs / 60) % (kHours * kHourNs);
  }
}
BENCHMARK(intensity_at);

void read_a_year(benchmark::State& state) {
  const std::string text = a_year();
  for (auto _ : state) {
    auto series = parse_series<GramsPerKwh>(electricity_maps_direct(), text, "bench");
    benchmark::DoNotOptimize(series);
  }
  state.SetItemsProcessed(state.iterations() * kHours);
}
BENCHMARK(read_a_year)->Unit(benchmark::kMillisecond);
}  // namespace

}  // namespace wattle::carbon
