#pragma once
// Energy of a single simulated step by the power model. Energy of runs is the ledger's.
#include "engine/step_model.h"

namespace wattle::engine {

/// Energy of one decode step on this line.
[[nodiscard]] inline Picojoules step_energy(const DecodeLine& line, std::int64_t kv_tokens) {
  const Int128 duration = line.base + Int128{line.slope} * kv_tokens;
  return Picojoules(line.power.value() * duration / (Int128{1} << kTimeFractionBits));
}

}  // namespace wattle::engine
