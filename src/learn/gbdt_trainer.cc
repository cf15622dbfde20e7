#include "learn/gbdt_trainer.h"

#include <fmt/core.h>
#include <xgboost/c_api.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/random.h"
#include "learn/xgboost_handles.h"
#include "predict/gbdt/residual_latency.h"

namespace wattle::learn {

namespace {

constexpr std::size_t kFewest = 10;
constexpr int kRefitRounds = 100;  ///< 0.9^100 of an error is left: enough to move the whole model
/// Raise it with every change to this file that gives equal samples other models.
constexpr int kRevision = 1;
constexpr int kRefitBins = 128;  ///< fewer new thresholds, so that the tables stay within bounds

struct Rows {
  std::size_t width = 0;
  std::vector<float> x;
  std::vector<float> y;       ///< ms
  std::vector<float> weight;  ///< empty: equal weights
  [[nodiscard]] std::size_t size() const { return y.size(); }
};

/// `relative`: every sample counts by its relative error, so that the few long steps do not drown the many short ones
/// that are served.
/// `lines`: see GbdtTraining.
Rows rows_of(std::span<const predict::StepSample> samples, bool decode, std::size_t width, bool relative,
             const LatencyModel* lines) {
  Rows rows{width, {}, {}, {}};
  for (const auto& s : samples) {
    if (s.duration <= Span() || !(decode ? predict::pure_decode(s.shape) : predict::pure_prefill(s.shape))) continue;
    rows.x.push_back(static_cast<float>(s.clock.value()));
    if (decode) {
      rows.x.push_back(static_cast<float>(s.shape.decode_requests));
      rows.x.push_back(static_cast<float>(s.shape.decode_kv_tokens));
    } else {
      rows.x.push_back(static_cast<float>(s.shape.prefill_tokens));
      if (width == predict::kFeatures) rows.x.push_back(static_cast<float>(s.shape.prefill_context_tokens));
    }
    const Span known = lines != nullptr ? lines->step_time(s.shape, s.clock) : Span();
    rows.y.push_back(static_cast<float>((s.duration - known).millis()));
    if (relative) rows.weight.push_back(1.0F / static_cast<float>(s.duration.millis()));
  }
  return rows;
}

Matrix matrix_of(const Rows& rows) {
  DMatrixHandle handle = nullptr;
  check(
      XGDMatrixCreateFromMat(rows.x.data(), rows.size(), rows.width, std::numeric_limits<float>::quiet_NaN(), &handle));
  Matrix matrix(handle);
  check(XGDMatrixSetFloatInfo(handle, "label", rows.y.data(), rows.size()));
  if (!rows.weight.empty()) check(XGDMatrixSetFloatInfo(handle, "weight", rows.weight.data(), rows.size()));
  return matrix;
}

/// The number behind the last colon of XGBoost's "[7]\tvalid-mae:1.234".
double score_of(const char* text) {
  const char* colon = std::strrchr(text, ':');
  double value = std::numeric_limits<double>::infinity();
  if (colon != nullptr) std::from_chars(colon + 1, text + std::strlen(text), value);
  return value;
}

struct Plan {
  const char* stream;  ///< of the random split
  double held_out;
  std::vector<std::pair<const char*, std::string>> parameters;
  int rounds = 0;
  int patience = 0;
  bool trees = false;
  bool fewest = false;  ///< not the best round, but the first that is as good (first_as_good)
};

struct Trained {
  std::string model;
  predict::FitQuality quality;
};

/// Weighted errors of the present model, by row.
std::vector<float> errors_of(void* booster, void* matrix, const Rows& rows) {
  bst_ulong length = 0;
  const float* predicted = nullptr;
  check(XGBoosterPredict(booster, matrix, 0, 0, 0, &length, &predicted));
  std::vector<float> errors(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    errors[i] = std::abs(predicted[i] - rows.y[i]) * (rows.weight.empty() ? 1.0F : rows.weight[i]);
  }
  return errors;
}

/// The first round that the best one does not beat by more than one standard error of their difference, row by row
/// (Breiman et al., Classification and Regression Trees, 1984: the 1 SE rule). `errors`: of each round, as errors_of.
int first_as_good(const std::vector<std::vector<float>>& errors, int best) {
  const auto& least = errors[static_cast<std::size_t>(best)];
  const auto n = static_cast<double>(least.size());
  for (int round = 0; round < best; ++round) {
    const auto& these = errors[static_cast<std::size_t>(round)];
    double sum = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i < least.size(); ++i) {
      const double more = double{these[i]} - double{least[i]};
      sum += more;
      squares += more * more;
    }
    const double mean = sum / n;
    if (mean <= std::sqrt(std::max(0.0, squares / n - mean * mean) / n)) return round;
  }
  return best;
}

/// `before`: the model to continue; empty: from nothing.
Trained train(const Rows& rows, const Plan& plan, std::uint64_t seed, const std::string& before) {
  Rows fit{rows.width, {}, {}, {}};
  Rows held{rows.width, {}, {}, {}};
  RandomStream random(seed, plan.stream);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Rows& to = random.uniform() < plan.held_out ? held : fit;
    const auto first = rows.x.begin() + static_cast<std::ptrdiff_t>(i * rows.width);
    to.x.insert(to.x.end(), first, first + static_cast<std::ptrdiff_t>(rows.width));
    to.y.push_back(rows.y[i]);
    if (!rows.weight.empty()) to.weight.push_back(rows.weight[i]);
  }
  if (held.y.empty() || fit.y.empty()) held = fit = rows;

  const Matrix fit_matrix = matrix_of(fit);
  const Matrix held_matrix = matrix_of(held);
  const DMatrixHandle caches[] = {fit_matrix.get(), held_matrix.get()};
  BoosterHandle handle = nullptr;
  check(XGBoosterCreate(caches, 2, &handle));
  Booster booster(handle);
  if (!before.empty()) check(XGBoosterLoadModelFromBuffer(handle, before.data(), before.size()));
  int first = 0;
  if (!before.empty() && plan.trees) check(XGBoosterBoostedRounds(handle, &first));
  for (const auto& [key, value] : plan.parameters) check(XGBoosterSetParam(handle, key, value.c_str()));

  double best = std::numeric_limits<double>::infinity();
  int best_round = first;
  std::string best_linear;
  std::vector<double> scores;              // by round
  std::vector<std::vector<float>> errors;  // likewise, for `fewest`
  DMatrixHandle watched[] = {held_matrix.get()};
  const char* names[] = {"held"};
  for (int round = first; round < first + plan.rounds && round - best_round <= plan.patience; ++round) {
    check(XGBoosterUpdateOneIter(handle, round, fit_matrix.get()));
    const char* text = nullptr;
    check(XGBoosterEvalOneIter(handle, round, watched, names, 1, &text));
    scores.push_back(score_of(text));
    if (plan.fewest) errors.push_back(errors_of(handle, held_matrix.get(), held));
    if (scores.back() < best) {
      best = scores.back();
      best_round = round;
      if (!plan.trees) best_linear = saved(handle);  // a linear booster cannot be cut back to a round
    }
  }
  Trained trained;
  if (plan.fewest && !errors.empty()) best_round = first + first_as_good(errors, best_round - first);
  if (plan.trees) {
    BoosterHandle cut = nullptr;
    check(XGBoosterSlice(handle, 0, best_round + 1, 1, &cut));
    booster.reset(cut);
    trained.model = saved(cut);
  } else {
    trained.model = std::move(best_linear);
  }
  trained.quality.samples = static_cast<std::int64_t>(held.size());
  trained.quality.mae_ms = scores[static_cast<std::size_t>(best_round - first)];
  return trained;
}

Plan tree_plan(const GbdtTraining& training, const char* stream) {
  return {stream,
          training.held_out,
          {{"booster", "gbtree"},
           {"eta", "0.1"},
           {"max_depth", std::to_string(training.decode_depth)},
           {"max_bin", std::to_string(training.bins)},
           {"subsample", "0.8"},
           {"colsample_bytree", "0.8"},
           {"tree_method", "hist"},
           {"objective", "reg:absoluteerror"},
           {"eval_metric", "mae"},
           {"nthread", "1"},
           {"verbosity", "0"},
           {"seed", std::to_string(training.seed)}},
          training.decode_rounds,
          training.decode_patience,
          true,
          training.lines != nullptr};
}

Plan line_plan(const GbdtTraining& training) {
  return {"gbdt.prefill.split",
          training.held_out,
          {{"booster", "gblinear"},
           {"updater", "coord_descent"},
           {"eta", "0.5"},
           {"objective", "reg:squarederror"},
           {"eval_metric", "mae"},
           {"lambda", "0"},
           {"nthread", "1"},
           {"verbosity", "0"},
           {"seed", std::to_string(training.seed)}},
          training.prefill_rounds,
          training.prefill_patience,
          false};
}

Plan prefill_plan(const GbdtTraining& training) {
  return training.prefill_trees ? tree_plan(training, "gbdt.prefill.split") : line_plan(training);
}

Plan decode_plan(const GbdtTraining& training) { return tree_plan(training, "gbdt.decode.split"); }

Plan rate_plan(const RateTraining& training) {
  return {"gbdt.rates.split",
          training.held_out,
          {{"booster", "gbtree"},
           {"eta", "0.1"},
           {"max_depth", std::to_string(training.depth)},
           {"max_bin", std::to_string(training.bins)},
           {"tree_method", "hist"},
           {"objective", "reg:squarederror"},
           {"eval_metric", "mae"},
           {"nthread", "1"},
           {"verbosity", "0"},
           {"seed", std::to_string(training.seed)}},
          training.rounds,
          training.patience,
          true};
}

std::uint64_t digest_of(const Plan& plan, std::uint64_t seed) {
  Digest digest;
  int major = 0;
  int minor = 0;
  int patch = 0;
  XGBoostVersion(&major, &minor, &patch);
  for (const int part : {kRevision, major, minor, patch, plan.rounds, plan.patience}) digest.add(part);
  digest.add(plan.trees);
  digest.add(plan.fewest);
  digest.add(seed);
  digest.add_text(plan.stream);
  digest.add_text(fmt::format("{}", plan.held_out));
  for (const auto& [key, value] : plan.parameters) {
    digest.add_text(key);
    digest.add_text(value);
  }
  return digest.value();
}

Result<void> enough(const Rows& rows, const char* what) {
  if (rows.size() >= kFewest) return {};
  return bad_input("samples", fmt::format("{} of {} alone, at least {} are needed", rows.size(), what, kFewest));
}

Result<Trained> try_train(const Rows& rows, const char* what, const Plan& plan, std::uint64_t seed,
                          const std::string& before = {}) {
  if (auto ok = enough(rows, what); !ok) return std::unexpected(ok.error());
  try {
    const OneThread alone;
    return train(rows, plan, seed, before);
  } catch (const Failure&) {
    return external_failure("xgboost", XGBGetLastError());
  }
}

/// `before`: null to begin from nothing; then every phase needs samples.
Result<GbdtModels> train_both(std::span<const predict::StepSample> samples, const GbdtTraining& training,
                              const GbdtModels* before) {
  const bool trees = training.prefill_trees;
  GbdtModels made = before != nullptr ? *before : GbdtModels{};
  const auto improve = [&](const Rows& rows, const char* what, const Plan& plan, std::string& model,
                           predict::FitQuality& quality) -> Result<void> {
    if (before != nullptr && rows.size() < kFewest) return {};
    auto trained = try_train(rows, what, plan, training.seed, model);
    if (!trained) return std::unexpected(trained.error());
    model = std::move(trained->model);
    quality = trained->quality;
    return {};
  };
  const Rows decode = rows_of(samples, true, predict::kFeatures, true, training.lines.get());
  if (auto ok = before != nullptr ? Result<void>{} : enough(decode, "decode"); !ok) return std::unexpected(ok.error());
  auto done = improve(rows_of(samples, false, trees ? predict::kFeatures : 2, trees, training.lines.get()), "prefill",
                      prefill_plan(training), made.prefill_model, made.prefill);
  if (done) done = improve(decode, "decode", decode_plan(training), made.decode_model, made.decode);
  if (!done) return std::unexpected(done.error());
  return made;
}

}  // namespace

std::uint64_t training_digest(const GbdtTraining& training) {
  Digest digest;
  digest.add(digest_of(prefill_plan(training), training.seed));
  digest.add(digest_of(decode_plan(training), training.seed));
  return digest.value();
}

std::uint64_t training_digest(const RateTraining& training) { return digest_of(rate_plan(training), training.seed); }

Result<GbdtModels> train_gbdt(std::span<const predict::StepSample> samples, const GbdtTraining& training) {
  return train_both(samples, training, nullptr);
}

Result<GbdtModels> continue_gbdt(const GbdtModels& before, std::span<const predict::StepSample> samples,
                                 const GbdtTraining& training) {
  return train_both(samples, training, &before);
}

predict::LatencyRefit gbdt_refit(GbdtModels offline, std::shared_ptr<const LatencyModel> model,
                                 std::vector<predict::StepSample> profile, GbdtTraining training) {
  training.prefill_rounds = training.decode_rounds = kRefitRounds;
  training.prefill_patience = training.decode_patience = kRefitRounds;
  training.bins = kRefitBins;
  return [offline = std::move(offline), model = std::move(model), profile = std::move(profile),
          training = std::move(training)](
             std::span<const predict::StepSample> served) -> Result<std::shared_ptr<const LatencyModel>> {
    auto samples = predict::level_profile(profile, *model, served);
    // A phase that was not served has nothing to teach: without samples its model stays.
    std::erase_if(samples,
                  [prefill = std::ranges::any_of(served, predict::pure_prefill, &predict::StepSample::shape),
                   decode = std::ranges::any_of(served, predict::pure_decode, &predict::StepSample::shape)](
                      const predict::StepSample& s) { return !(predict::pure_prefill(s.shape) ? prefill : decode); });
    samples.insert(samples.end(), served.begin(), served.end());
    const auto models = continue_gbdt(offline, samples, training);
    if (!models) return std::unexpected(models.error());
    return load_latency(*models, training.lines);
  };
}

Result<std::string> train_rates(std::span<const EngineStep> samples, const RateTraining& training) {
  Rows rows{4, {}, {}, {}};
  const auto counts = [](const predict::StepSample& s) {
    return s.duration > Span() && s.shape.decode_requests > 0 && s.shape.prefill_tokens == 0;
  };
  // All engine sizes have the same weight: a large engine has ten times the KV cache of a small one and as many more
  // measurements, which would otherwise dominate bins and fit.
  std::map<std::int32_t, std::int64_t> of_size;
  for (const auto& [tensor_parallel, s] : samples) of_size[tensor_parallel] += counts(s) ? 1 : 0;
  for (const auto& [tensor_parallel, s] : samples) {
    if (!counts(s)) continue;
    rows.weight.push_back(
        static_cast<float>(static_cast<double>(samples.size()) / static_cast<double>(of_size[tensor_parallel])));
    rows.x.insert(rows.x.end(), {static_cast<float>(s.clock.value()), static_cast<float>(s.shape.decode_requests),
                                 static_cast<float>(s.shape.decode_kv_tokens), static_cast<float>(tensor_parallel)});
    rows.y.push_back(static_cast<float>(1.0 / s.duration.seconds()));
  }
  auto trained = try_train(rows, "decode", rate_plan(training), training.seed);
  if (!trained) return std::unexpected(trained.error());
  return std::move(trained->model);
}

Result<predict::GbdtLatency> load_rates(const std::string& rates, std::int32_t tensor_parallel) {
  const auto trees = predict::GbdtTrees::from_xgboost_at(rates, static_cast<float>(tensor_parallel));
  if (!trees) return std::unexpected(trees.error());
  return predict::GbdtLatency::make({{0.0F, 0.0F}, 0.0F, 0.0F}, *trees, predict::GbdtLatency::Target::Rate);
}

Result<predict::GbdtLatency> load_gbdt(const GbdtModels& models) {
  const auto decode = predict::GbdtTrees::from_xgboost(models.decode_model);
  if (!decode) return std::unexpected(decode.error());
  if (auto line = predict::LinearBooster::from_xgboost(models.prefill_model, 2)) {
    return predict::GbdtLatency::make(std::move(*line), *decode);
  }
  const auto prefill = predict::GbdtTrees::from_xgboost(models.prefill_model);
  if (!prefill) return std::unexpected(prefill.error());
  return predict::GbdtLatency::make(*prefill, *decode);
}

Result<std::shared_ptr<const LatencyModel>> load_latency(const GbdtModels& models,
                                                         const std::shared_ptr<const predict::LinearLatency>& lines) {
  if (lines == nullptr) {
    auto loaded = load_gbdt(models);
    if (!loaded) return std::unexpected(loaded.error());
    return std::make_shared<const predict::GbdtLatency>(std::move(*loaded));
  }
  const auto prefill = predict::GbdtTrees::from_xgboost(models.prefill_model);
  if (!prefill) return std::unexpected(prefill.error());
  const auto decode = predict::GbdtTrees::from_xgboost(models.decode_model);
  if (!decode) return std::unexpected(decode.error());
  auto made = predict::ResidualLatency::make(lines, *prefill, *decode);
  if (!made) return std::unexpected(made.error());
  return std::make_shared<const predict::ResidualLatency>(std::move(*made));
}

}  // namespace wattle::learn
