#pragma once
// Cross-validation of the fit: the fitted rows in k folds, each predicted by a fit on the others.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fidelity/experiment.h"

namespace wattle::fidelity {

struct CrossValidated {
  std::string set;
  std::string quantity;
  std::size_t rows = 0;
  double fitted = 0.0;    ///< MAPE of a fit on all rows, on the same rows
  double left_out = 0.0;  ///< MAPE of the k fits, each on the rows it left out
};

/// For the fitted rows of one kind of GPU, by set and quantity. Kinds from which its fit starts are fitted on the same
/// folds. Fits folds + 1 times. Needs folds >= 2 and kinds known to `catalog`, whose profiles are not used.
[[nodiscard]] std::vector<CrossValidated> cross_validate(std::string_view gpu, const Catalog& catalog,
                                                         const std::vector<Experiment>& experiments, std::size_t folds,
                                                         unsigned threads);

/// One quantity of one model's rows, predicted by a fit of its GPU kind on all other models' rows.
struct ModelLeftOut {
  std::string model;
  std::string quantity;
  std::size_t rows = 0;
  double mean = 0.0;    ///< mean absolute relative error
  double median = 0.0;  ///< likewise
  double p90 = 0.0;     ///< likewise
  double bias = 0.0;    ///< mean of the signed errors
};

/// For each model named by rows of `gpu` (Experiment::model): a fit on the other models' rows and on the other rows
/// that the shipped fit uses (kernels, sweeps), evaluated on all rows of that model; then "all models" together, by
/// row. Kinds from which `gpu` starts keep the profiles in `catalog.profiles`.
[[nodiscard]] std::vector<ModelLeftOut> leave_one_model_out(std::string_view gpu, const Catalog& catalog,
                                                            const std::vector<Experiment>& experiments,
                                                            unsigned threads);

}  // namespace wattle::fidelity
