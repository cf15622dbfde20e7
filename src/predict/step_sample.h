#pragma once
#include <cstdint>

#include "model/step.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::predict {

/// One measured iteration; latency predictors are fitted on these.
struct StepSample {
  MegaHertz clock;
  StepShape shape;
  Span duration;
};

[[nodiscard]] inline bool pure_prefill(const StepShape& s) { return s.prefill_tokens > 0 && s.decode_requests == 0; }
[[nodiscard]] inline bool pure_decode(const StepShape& s) { return s.decode_requests > 0 && s.prefill_tokens == 0; }

/// How well a model explains the samples it was fitted on.
struct FitQuality {
  std::int64_t samples = 0;
  double mae_ms = 0.0;  ///< mean absolute error
  double r2 = 0.0;      ///< 1 - residual / total variance; 1 when there is no variance to explain
};

}  // namespace wattle::predict
