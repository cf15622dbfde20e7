#pragma once
// For tests: plausible run directories, written through the journal's own writers.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::report {

struct SyntheticRun {
  std::string scenario = "azure-conv-2p2d";
  std::string recipe = "static-max";
  std::string driver = "sim";
  std::string meters = "simulated";
  std::uint64_t seed = 1;
  int instances = 4;
  Span length = Span::s(600);
  Span sample_period = Span::s(1);
  double requests_per_s = 8.0;
  MegaHertz clock_low{1410};  ///< the clock drops here when load is low
  bool timeseries = true;
};

/// Writes directory/run.json and the files beside it.
[[nodiscard]] Result<void> write_synthetic_run(const std::string& directory, const SyntheticRun& run);

}  // namespace wattle::report
