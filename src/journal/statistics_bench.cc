#include "journal/statistics.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "base/random.h"
#include "journal/digest_sink.h"

namespace wattle::journal {
namespace {

Slo slo() {
  Slo slo;
  slo.ttft = Span::ms(600);
  slo.itl = Span::ms(60);
  return slo;
}

std::vector<Outcome> outcomes(std::size_t n) {
  RandomStream random(1, "outcomes");
  std::vector<Outcome> all(n);
  std::int64_t id = 0;
  for (Outcome& o : all) {
    o.request.id = RequestId(id++);
    o.request.arrival = Instant(id * 1'000'000);
    o.request.prompt_tokens = static_cast<std::int32_t>(random.below(4000));
    o.prefill_start = o.request.arrival + Span::from_seconds(0.01 * random.exponential());
    o.first_token = o.prefill_start + Span::from_seconds(0.1 * random.exponential());
    o.left = o.first_token + Span::from_seconds(4.0 * random.exponential());
    o.output_tokens = 2 + static_cast<std::int32_t>(random.below(500));
    o.gaps_within_itl = o.output_tokens - 1;
    o.reason = "stop";
  }
  return all;
}

void outcome_accumulation(benchmark::State& state) {
  const auto all = outcomes(4096);
  RunStatistics stats(slo());
  std::size_t i = 0;
  for (auto _ : state) stats.outcome(all[i++ & 4095U]);
}
BENCHMARK(outcome_accumulation);

void outcome_digest(benchmark::State& state) {
  const auto all = outcomes(4096);
  DigestSink sink;
  std::size_t i = 0;
  for (auto _ : state) sink.outcome(all[i++ & 4095U]);
  benchmark::DoNotOptimize(sink.value());
}
BENCHMARK(outcome_digest);

/// A batch of 64 decoding for `steps` iterations from 20 ms, each 0.64 us longer than the last.
void add_gaps(benchmark::State& state) {
  RunStatistics stats(slo());
  for (auto _ : state) {
    stats.add_gaps(std::int64_t{20'000'000} << kGapFractionBits, std::int64_t{640} << kGapFractionBits, state.range(0),
                   64, 64 * state.range(0));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(add_gaps)->Arg(1)->Arg(16)->Arg(256)->Arg(4096);

}  // namespace
}  // namespace wattle::journal
