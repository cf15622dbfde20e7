#pragma once
// How well the fit's plan predicts rows it leaves out: the fitted rows in k parts, each predicted by a fit on the
// others.
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
  double fitted = 0.0;    ///< MAPE of one fit on all rows, on those rows
  double left_out = 0.0;  ///< MAPE of the k fits, each on the rows it did not see
};

/// Of one GPU kind's fitted rows, by set and quantity. The kinds it starts from are fitted on the same parts. Fits
/// folds + 1 times. Needs folds >= 2 and kinds that `catalog` knows; its profiles are not read.
[[nodiscard]] std::vector<CrossValidated> cross_validate(std::string_view gpu, const Catalog& catalog,
                                                         const std::vector<Experiment>& experiments, std::size_t folds,
                                                         unsigned threads);

/// One quantity of the rows of one model, predicted by a fit of its GPU kind on every other model's.
struct ModelLeftOut {
  std::string model;
  std::string quantity;
  std::size_t rows = 0;
  double mean = 0.0;    ///< of the relative errors, absolute
  double median = 0.0;  ///< likewise
  double p90 = 0.0;     ///< likewise
  double bias = 0.0;    ///< mean of the signed errors
};

/// For each model that rows of `gpu` name (Experiment::model): a fit on the other models' such rows and on what the
/// shipped fit sees beside (kernels, sweeps), judged on all rows of that model; then "all models" together, row by row.
/// Kinds that `gpu` starts from stay as `catalog.profiles` has them.
[[nodiscard]] std::vector<ModelLeftOut> leave_one_model_out(std::string_view gpu, const Catalog& catalog,
                                                            const std::vector<Experiment>& experiments,
                                                            unsigned threads);

}  // namespace wattle::fidelity
