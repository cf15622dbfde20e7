#pragma once
// How long requests take without waiting, and how much longer they may take (FREESH, section 3.3 and appendix C).
#include <cstdint>

#include "units/time.h"

namespace wattle {

struct ServiceTime {
  Span ttft;  ///< T_TTFT: to the first token
  Span tbt;   ///< T_TBT: between tokens

  /// Lat = T_TTFT + tokens x T_TBT
  [[nodiscard]] Span latency(std::int64_t tokens) const { return ttft + tbt * tokens; }
};

/// Parameters of the fairness metrics. The defaults are the paper's.
struct FairnessBasis {
  ServiceTime service;
  double window = 1.4;  ///< alpha: tokens within this many times Lat from arrival are in time for the client
  double limit = 5.0;   ///< beta: a request not done within this many times Lat violates the operator's objective
};

}  // namespace wattle
