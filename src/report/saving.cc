#include "report/saving.h"

#include <algorithm>
#include <cmath>

#include "carbon/ledger.h"

namespace wattle::report {

Joules energy_until(const journal::RunSummary& run, double seconds) {
  const double after_s = seconds - run.sim.virtual_s;
  if (after_s <= 0.0 || std::isnan(run.idle_power.value())) return run.energy.total;
  return carbon::with_idle_after(run.energy.total, run.idle_power, Span::from_seconds(after_s));
}

double saved_against(const journal::RunSummary& run, const journal::RunSummary& baseline) {
  const double until_s = std::max(run.sim.virtual_s, baseline.sim.virtual_s);
  const double base = energy_until(baseline, until_s).value();
  return base > 0.0 ? 1.0 - energy_until(run, until_s).value() / base : std::nan("");
}

}  // namespace wattle::report
