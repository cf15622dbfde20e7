#include "fidelity/cross_validation.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "fidelity/fit_plan.h"

namespace wattle::fidelity {
namespace {

struct Sum {
  std::size_t rows = 0;
  double error = 0.0;
};
using Sums = std::map<std::pair<std::string, std::string>, Sum>;

/// Fits `gpu`, and what it starts from, on the experiments marked fitted.
engine::HardwareProfile fit(std::string_view gpu, Catalog catalog, const std::vector<Experiment>& experiments,
                            unsigned threads) {
  catalog.profiles.clear();
  for (const std::string& kind : fit_order(catalog, {std::string(gpu)})) {
    catalog.profiles[kind] = fit_gpu(kind, catalog, experiments, threads).profile;
  }
  return catalog.profiles.at(std::string(gpu));
}

void add_errors(const Experiment& e, const engine::HardwareProfile& profile, Sums& to) {
  const std::vector<double> ours = e.simulate(profile, Rival{}).values;
  for (std::size_t q = 0; q < ours.size(); ++q) {
    const double error = std::abs(ours[q] / e.quantities[q].measured - 1.0);
    if (!std::isfinite(error)) continue;
    Sum& sum = to[{e.set, e.quantities[q].name}];
    ++sum.rows;
    sum.error += error;
  }
}

}  // namespace

std::vector<CrossValidated> cross_validate(std::string_view gpu, const Catalog& catalog,
                                           const std::vector<Experiment>& experiments, std::size_t folds,
                                           unsigned threads) {
  Sums seen;
  Sums unseen;
  const engine::HardwareProfile whole = fit(gpu, catalog, experiments, threads);
  for (const Experiment& e : experiments) {
    if (e.fitted && e.gpu == gpu) add_errors(e, whole, seen);
  }
  for (std::size_t fold = 0; fold < folds; ++fold) {
    std::vector<Experiment> rest = experiments;
    for (Experiment& e : rest) e.fitted = e.fitted && fold_of(e.set, e.row, folds) != fold;
    const engine::HardwareProfile profile = fit(gpu, catalog, rest, threads);
    for (std::size_t i = 0; i < rest.size(); ++i) {
      if (experiments[i].fitted && !rest[i].fitted && rest[i].gpu == gpu) add_errors(rest[i], profile, unseen);
    }
  }
  std::vector<CrossValidated> table;
  for (const auto& [key, sum] : seen) {
    const Sum& left = unseen[key];
    table.push_back({key.first, key.second, sum.rows, sum.error / static_cast<double>(sum.rows),
                     left.error / static_cast<double>(left.rows)});
  }
  return table;
}

}  // namespace wattle::fidelity
