#pragma once
// A quantity against time in steps: the shape of grid data (intensity, price).
#include "carbon/series.h"

namespace wattle::feeds {

template <typename Value>
using StepSeries = carbon::Series<Value>;

}  // namespace wattle::feeds
