#pragma once
// Predictors of output lengths on one file: each predicts the rows in order of time, before it learns their answers.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "length_data.h"
#include "neural/length_net.h"

namespace wattle::apps {

class LengthPredictor {
 public:
  virtual ~LengthPredictor() = default;
  /// Trains on the rows before the held-out part. Errors: the trainer's.
  virtual Result<void> fit(const std::vector<LengthRow>& rows, const std::vector<predict::PromptFeatures>& features,
                           std::size_t count) {
    (void)rows, (void)features, (void)count;
    return {};
  }
  /// Tokens; 0: nothing to say yet.
  virtual double predict(const LengthRow& row, const predict::PromptFeatures& features) = 0;
  /// Called for every row, held-out ones included, after its answer has ended. Errors: as fit().
  virtual Result<void> learn(const LengthRow& row, const predict::PromptFeatures& features) {
    (void)row, (void)features;
    return {};
  }
};

struct NamedPredictor {
  std::string name;
  std::unique_ptr<LengthPredictor> predictor;
};

/// The running mean and median, the recipes' `learned` and `trees`, and trees trained once on the rows that are not
/// held out.
[[nodiscard]] std::vector<NamedPredictor> length_predictors(std::uint64_t seed);
/// Trained on the rows that are not held out. `train`: the neural module's.
using TrainLengthNet =
    std::function<Result<std::unique_ptr<neural::LengthNet>>(const std::vector<neural::LengthExample>&)>;
[[nodiscard]] NamedPredictor length_net(TrainLengthNet train);

/// Over the held-out rows.
struct LengthContestScore {
  double mae = 0.0;         ///< tokens
  double mape = 0.0;        ///< share
  double pinball_50 = 0.0;  ///< tokens
  /// Of the prediction times the 90 % quantile of truth over prediction in the held-out rows before it.
  double pinball_90 = 0.0;
  double coverage_90 = 0.0;
  double r2 = 0.0;
  double accuracy = 0.0;  ///< share of answers whose class is predicted correctly
  double fit_s = 0.0;     ///< CPU, learning included
  double ask_us = 0.0;    ///< each
};

/// `borders`: a length belongs to the first it is below; ascending. Errors: those of the predictor.
[[nodiscard]] Result<LengthContestScore> contest(LengthPredictor& predictor, const std::vector<LengthRow>& rows,
                                                 const std::vector<predict::PromptFeatures>& features,
                                                 std::size_t held_from, const std::vector<std::int32_t>& borders);

}  // namespace wattle::apps
