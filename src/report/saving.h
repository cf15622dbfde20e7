#pragma once
// What one run saved against another, over the same period.
#include "journal/summary.h"
#include "units/quantity.h"

namespace wattle::report {

/// The run's energy until `seconds` of its time, which its end is not after; from its end on its fleet draws
/// RunSummary::idle_power, if that is known.
[[nodiscard]] Joules energy_until(const journal::RunSummary& run, double seconds);

/// What a run took in all.
struct Taken {
  Joules energy;
  GramsCo2 carbon;
  Usd cost;
};

/// What the run took until `seconds` of its time, as for energy_until. What its fleet draws after its end has the
/// intensity and price of what it drew before, and its GPUs cost what they did in the mean.
[[nodiscard]] Taken taken_until(const journal::RunSummary& run, double seconds);

/// Share of the baseline's energy that the run saved, both until the later end of the two: a fleet is not switched off
/// because its last request has left. NaN if the baseline drew nothing.
[[nodiscard]] double saved_against(const journal::RunSummary& run, const journal::RunSummary& baseline);

/// The same; NaN where the run did less (RunSummary::did_less_than), as less energy is no saving then.
[[nodiscard]] double saving_stated(const journal::RunSummary& run, const journal::RunSummary& baseline);

}  // namespace wattle::report
