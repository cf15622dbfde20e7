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

Taken taken_until(const journal::RunSummary& run, double seconds) {
  const Joules energy = energy_until(run, seconds);
  Taken taken{energy, run.carbon, run.cost};
  if (energy <= run.energy.total || run.energy.total <= Joules()) return taken;
  const double more = energy.value() / run.energy.total.value() - 1.0;
  const double longer = seconds / run.sim.virtual_s - 1.0;
  taken.carbon += run.carbon * more;
  taken.cost += run.cost_split.gpus * longer + run.cost_split.electricity * more;
  return taken;
}

double saved_against(const journal::RunSummary& run, const journal::RunSummary& baseline) {
  const double until_s = std::max(run.sim.virtual_s, baseline.sim.virtual_s);
  const double base = energy_until(baseline, until_s).value();
  return base > 0.0 ? 1.0 - energy_until(run, until_s).value() / base : std::nan("");
}

double saving_stated(const journal::RunSummary& run, const journal::RunSummary& baseline) {
  return run.did_less_than(baseline) ? std::nan("") : saved_against(run, baseline);
}

}  // namespace wattle::report
