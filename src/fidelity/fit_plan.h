#pragma once
// Which factors are fitted on which rows, in which order: the same plan for every GPU kind.
#include <string>
#include <string_view>
#include <vector>

#include "fidelity/experiment.h"

namespace wattle::fidelity {

struct FitOutcome {
  engine::HardwareProfile profile;
  std::string provenance;
  std::vector<std::string> notes;  ///< rows used and errors, one line each
};

/// GPU kinds in the order they are fitted: those wanted (none: all) and those whose factors they start from.
[[nodiscard]] std::vector<std::string> fit_order(const Catalog& catalog, const std::vector<std::string>& wanted = {});

/// Fits one GPU kind on its fitted rows. Kinds without rows take a measured relative's factors, power scaled to their
/// TDP, and say so. `catalog.profiles` must hold the kinds that come before it in fit_order.
[[nodiscard]] FitOutcome fit_gpu(std::string_view gpu, const Catalog& catalog,
                                 const std::vector<Experiment>& experiments, unsigned threads);

}  // namespace wattle::fidelity
