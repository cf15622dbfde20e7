#include <benchmark/benchmark.h>

#include "journal/decisions_jsonl.h"
#include "journal/requests_csv.h"
#include "journal/timeseries_csv.h"

namespace wattle::journal {
namespace {

Outcome an_outcome() {
  Outcome o;
  o.request.id = RequestId(123456);
  o.request.arrival = Instant(1'234'567'890'123);
  o.request.prompt_tokens = 1234;
  o.reason = "stop";
  o.dispatched = o.request.arrival + Span::us(120);
  o.prefill_start = o.dispatched + Span::us(420);
  o.first_token = o.prefill_start + Span::ms(87);
  o.left = o.first_token + Span::ms(3456);
  o.output_tokens = 211;
  o.energy = Picojoules(123'456'789'012'345);
  o.carbon = GramsCo2(0.0137);
  o.gaps_within_itl = 209;
  return o;
}

template <typename F>
void rows(benchmark::State& state, F&& append) {
  std::string out;
  std::int64_t bytes = 0;
  for (auto _ : state) {
    append(out);
    if (out.size() > 60'000) {
      bytes += static_cast<std::int64_t>(out.size());
      out.clear();
    }
  }
  state.SetBytesProcessed(bytes + static_cast<std::int64_t>(out.size()));
}

void request_row(benchmark::State& state) {
  rows(state, [o = an_outcome()](std::string& out) { append_request_row(out, o); });
}
BENCHMARK(request_row);

void sample_row(benchmark::State& state) {
  Sample s;
  s.at = Instant(1'234'567'890'123);
  s.power = Milliwatts(312'456);
  s.clock = MegaHertz(1005);
  s.decode_requests = 64;
  s.kv_tokens = 123456;
  rows(state, [s](std::string& out) { append_sample_row(out, s); });
}
BENCHMARK(sample_row);

void decision_line(benchmark::State& state) {
  DecisionRecord d;
  d.at = Instant(1'234'567'890'123);
  d.kind = DecisionKind::Clock;
  d.value = 1005;
  d.reason = "slowest clock within budget";
  rows(state, [d](std::string& out) { append_decision_line(out, d); });
}
BENCHMARK(decision_line);

}  // namespace
}  // namespace wattle::journal
