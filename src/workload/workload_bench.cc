// Reading and making requests. The trace read is synthesised in memory: the size and form of the Azure 2023
// conversation trace, without the file.
#include <benchmark/benchmark.h>

#include "workload/source.h"
#include "workload/summary.h"
#include "workload/trace.h"
#include "workload/trace_writer.h"

namespace wattle::workload {

namespace {
std::vector<TraceRow> azure_like_rows() {
  WorkloadOptions options;
  options.synthetic = "azure-conv";
  auto source = make_source(options, "", "", 1);
  std::vector<TraceRow> rows;
  while (const auto row = (*source)->next()) rows.push_back(*row);
  return rows;
}

void read_trace(benchmark::State& state) {
  const auto format = static_cast<TraceFormat>(state.range(0));
  const auto rows = azure_like_rows();
  std::string text = trace_header(format);
  for (std::size_t i = 0; i < rows.size(); ++i) append_row(format, static_cast<std::int64_t>(i), rows[i], text);
  state.SetLabel(std::string(format_name(format)));
  for (auto _ : state) {
    auto trace = parse_trace(format, text, "bench");
    if (!trace) state.SkipWithError(trace.error().message().c_str());
    benchmark::DoNotOptimize(trace);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows.size()));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(read_trace)->DenseRange(0, 4)->ArgName("format")->Unit(benchmark::kMillisecond);

void write_trace(benchmark::State& state) {
  const auto rows = azure_like_rows();
  for (auto _ : state) {
    std::string text = trace_header(TraceFormat::Azure);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      append_row(TraceFormat::Azure, static_cast<std::int64_t>(i), rows[i], text);
    }
    benchmark::DoNotOptimize(text);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows.size()));
}
BENCHMARK(write_trace)->Unit(benchmark::kMillisecond);

void summarize_trace(benchmark::State& state) {
  const auto rows = azure_like_rows();
  for (auto _ : state) benchmark::DoNotOptimize(summarize(rows));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(rows.size()));
}
BENCHMARK(summarize_trace)->Unit(benchmark::kMillisecond);

/// One pulled request; the process is the argument.
void draw_request(benchmark::State& state) {
  WorkloadOptions options;
  options.requests = std::int64_t{1} << 40;
  options.rate_per_s = 1e6;
  options.arrival_cv = state.range(0) == 0 ? 1.0 : 2.0;
  state.SetLabel(state.range(0) == 0 ? "Poisson, lognormal" : "Gamma, lognormal");
  auto source = make_source(options, "", "", 1);
  if (!source) {
    state.SkipWithError(source.error().message().c_str());
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize((*source)->next());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(draw_request)->Arg(0)->Arg(1);

}  // namespace

}  // namespace wattle::workload
