#pragma once
// The fitting plan: which factors are fitted on which rows, in which order; the same for every GPU kind.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fidelity/experiment.h"

namespace wattle::fidelity {

struct FitOutcome {
  engine::HardwareProfile profile;
  std::string provenance;
  std::vector<std::string> notes;  ///< rows used and their errors, one line each
};

/// GPU kinds in fitting order: the wanted ones (none: all) and those from whose factors they start.
[[nodiscard]] std::vector<std::string> fit_order(const Catalog& catalog, const std::vector<std::string>& wanted = {});

/// Fits one GPU kind on its fitted rows. Kinds without rows take a measured relative's factors, with power scaled to
/// their TDP, and say so. `catalog.profiles` must contain the kinds before it in fit_order.
[[nodiscard]] FitOutcome fit_gpu(std::string_view gpu, const Catalog& catalog,
                                 const std::vector<Experiment>& experiments, unsigned threads);

/// Robust cost of `profile` in each stage of the fit that its kind has rows for, by the stage's name: what the notes
/// state "after all stages".
[[nodiscard]] std::map<std::string, double> stage_costs(const engine::HardwareProfile& profile,
                                                        const std::vector<Experiment>& experiments, unsigned threads);

}  // namespace wattle::fidelity
