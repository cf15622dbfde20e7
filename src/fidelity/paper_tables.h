#pragma once
// Tables I to III of DynamoLLM (Stojkovic et al., HPCA 2025): energy per request by class, load and model.
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "engine/options.h"
#include "fidelity/experiment.h"

namespace wattle::fidelity {

inline constexpr std::size_t kEnergyCells = 12;  ///< TP 2, 4, 8, each at four clocks

struct EnergyCell {
  int tp = 0;
  int mhz = 0;
  double published_wh = kNone, ours_wh = kNone;  ///< kNone: violates an objective
};

/// A line: "I SS", "II low load", "III 13B".
struct EnergyRow {
  std::string name;
  std::array<EnergyCell, kEnergyCells> cells;
};

/// All lines, simulated on an H100 with these engine options; in Wh that the instance consumes while one request runs.
/// Empty: the catalogue lacks the GPU.
[[nodiscard]] std::vector<EnergyRow> dynamollm_energy(const Catalog& catalog, const engine::EngineOptions& engine);

}  // namespace wattle::fidelity
