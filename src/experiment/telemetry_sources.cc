#include "experiment/telemetry_sources.h"

#include <utility>

namespace wattle::experiment {

std::vector<SourceRun> telemetry_sources() {
  using enum TelemetrySource;
  return {{"step reports, start", StepStarts, Span(), {}},     {"step reports, end", StepEnds, Span(), {}},
          {"streams alone", Streams, Span::ms(100), {}},       {"gauges alone, 50 ms", Gauges, Span::ms(50), {}},
          {"gauges alone, 250 ms", Gauges, Span::ms(250), {}}, {"gauges alone, 5 s", Gauges, Span::s(5), {}}};
}

Result<std::vector<SourceRun>> run_by_source(const config::LoadedScenario& scenario,
                                             const systems::LoadedRecipe& recipe, const SimulateOptions& options) {
  auto all = telemetry_sources();
  for (SourceRun& one : all) {
    config::LoadedScenario measured = scenario;
    measured.scenario.measurement.telemetry = one.telemetry;
    if (one.period > Span()) measured.scenario.measurement.telemetry_period = one.period;
    auto summary = run_simulation(measured, recipe, options);
    if (!summary) return std::unexpected(summary.error());
    one.summary = std::move(*summary);
  }
  return all;
}

}  // namespace wattle::experiment
