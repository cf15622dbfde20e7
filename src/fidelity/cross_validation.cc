#include "fidelity/cross_validation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "fidelity/fit_plan.h"

namespace wattle::fidelity {
namespace {

struct Sum {
  std::size_t rows = 0;
  double error = 0.0;
};
using Sums = std::map<std::pair<std::string, std::string>, Sum>;

/// Fits `gpu`, and the profiles it is derived from, to the experiments marked fitted.
engine::HardwareProfile fit(std::string_view gpu, Catalog catalog, const std::vector<Experiment>& experiments,
                            unsigned threads) {
  catalog.profiles.clear();
  for (const std::string& kind : fit_order(catalog, {std::string(gpu)})) {
    catalog.profiles[kind] = fit_gpu(kind, catalog, experiments, threads).profile;
  }
  return catalog.profiles.at(std::string(gpu));
}

void add_errors(const Experiment& e, const engine::HardwareProfile& profile, Sums& to) {
  const auto simulated = e.simulate(profile, Rival{});
  if (!simulated) return;
  const std::vector<double>& ours = simulated->values;
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

namespace {

ModelLeftOut summary(std::string model, std::string quantity, std::vector<double> errors) {
  ModelLeftOut out{std::move(model), std::move(quantity), errors.size()};
  const auto n = static_cast<double>(errors.size());
  for (double& error : errors) {
    out.bias += error / n;
    error = std::abs(error);
    out.mean += error / n;
  }
  std::ranges::sort(errors);
  const auto at = [&](double share) {
    return errors[static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1))];
  };
  out.median = at(0.5);
  out.p90 = at(0.9);
  return out;
}

}  // namespace

std::vector<ModelLeftOut> leave_one_model_out(std::string_view gpu, const Catalog& catalog,
                                              const std::vector<Experiment>& experiments, unsigned threads) {
  std::set<std::string> models;
  for (const Experiment& e : experiments) {
    if (e.gpu == gpu && !e.model.empty()) models.insert(e.model);
  }
  std::vector<ModelLeftOut> table;
  std::map<std::string, std::vector<double>> all;
  for (const std::string& model : models) {
    std::vector<Experiment> rest = experiments;
    for (Experiment& e : rest) {
      if (e.gpu == gpu && !e.model.empty()) e.fitted = e.model != model;
    }
    const engine::HardwareProfile profile = fit_gpu(gpu, catalog, rest, threads).profile;
    std::map<std::string, std::vector<double>> errors;
    for (const Experiment& e : rest) {
      if (e.gpu != gpu || e.model != model) continue;
      const auto simulated = e.simulate(profile, Rival{});
      if (!simulated) continue;
      const std::vector<double>& ours = simulated->values;
      for (std::size_t q = 0; q < ours.size(); ++q) {
        const double error = ours[q] / e.quantities[q].measured - 1.0;
        if (std::isfinite(error)) errors[e.quantities[q].name].push_back(error);
      }
    }
    for (auto& [quantity, values] : errors) {
      all[quantity].insert(all[quantity].end(), values.begin(), values.end());
      table.push_back(summary(model, quantity, std::move(values)));
    }
  }
  for (auto& [quantity, values] : all) table.push_back(summary("all models", quantity, std::move(values)));
  return table;
}

}  // namespace wattle::fidelity
