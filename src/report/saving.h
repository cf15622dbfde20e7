#pragma once
// What one run saved against another, over the same period.
#include "journal/summary.h"
#include "units/quantity.h"

namespace wattle::report {

/// The run's energy until `seconds` of its time, which its end is not after; from its end on its fleet draws
/// RunSummary::idle_power, if that is known.
[[nodiscard]] Joules energy_until(const journal::RunSummary& run, double seconds);

/// Share of the baseline's energy that the run saved, both until the later end of the two: a fleet is not switched off
/// because its last request has left. NaN if the baseline drew nothing.
[[nodiscard]] double saved_against(const journal::RunSummary& run, const journal::RunSummary& baseline);

}  // namespace wattle::report
