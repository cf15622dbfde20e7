#include "learn/gbdt_trainer.h"

#include <fmt/core.h>
#include <xgboost/c_api.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"

namespace wattle::learn {

namespace {

constexpr std::size_t kFewest = 10;

struct Failure {};  ///< thrown and caught within this file; XGBoost keeps the message

void check(int status) {
  if (status != 0) throw Failure{};
}

struct FreeMatrix {
  void operator()(void* handle) const { XGDMatrixFree(handle); }
};
struct FreeBooster {
  void operator()(void* handle) const { XGBoosterFree(handle); }
};
using Matrix = std::unique_ptr<void, FreeMatrix>;
using Booster = std::unique_ptr<void, FreeBooster>;

struct Rows {
  std::size_t width = 0;
  std::vector<float> x;
  std::vector<float> y;  ///< ms
  [[nodiscard]] std::size_t size() const { return y.size(); }
};

Rows rows_of(std::span<const predict::StepSample> samples, bool decode) {
  Rows rows{decode ? std::size_t{3} : std::size_t{2}, {}, {}};
  for (const auto& s : samples) {
    if (s.duration <= Span() || (s.shape.decode_requests > 0) != decode || (s.shape.prefill_tokens > 0) == decode)
      continue;
    rows.x.push_back(static_cast<float>(s.clock.value()));
    if (decode) {
      rows.x.push_back(static_cast<float>(s.shape.decode_requests));
      rows.x.push_back(static_cast<float>(s.shape.decode_kv_tokens));
    } else {
      rows.x.push_back(static_cast<float>(s.shape.prefill_tokens));
    }
    rows.y.push_back(static_cast<float>(static_cast<double>(s.duration.ns()) * 1e-6));
  }
  return rows;
}

Matrix matrix_of(const Rows& rows) {
  DMatrixHandle handle = nullptr;
  check(
      XGDMatrixCreateFromMat(rows.x.data(), rows.size(), rows.width, std::numeric_limits<float>::quiet_NaN(), &handle));
  Matrix matrix(handle);
  check(XGDMatrixSetFloatInfo(handle, "label", rows.y.data(), rows.size()));
  return matrix;
}

std::string saved(void* booster) {
  bst_ulong length = 0;
  const char* bytes = nullptr;
  check(XGBoosterSaveModelToBuffer(booster, R"({"format": "json"})", &length, &bytes));
  return {bytes, length};
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
};

struct Trained {
  std::string json;
  predict::FitQuality quality;
};

Trained train(const Rows& rows, const Plan& plan, std::uint64_t seed) {
  Rows fit{rows.width, {}, {}};
  Rows held{rows.width, {}, {}};
  RandomStream random(seed, plan.stream);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Rows& to = random.uniform() < plan.held_out ? held : fit;
    const auto first = rows.x.begin() + static_cast<std::ptrdiff_t>(i * rows.width);
    to.x.insert(to.x.end(), first, first + static_cast<std::ptrdiff_t>(rows.width));
    to.y.push_back(rows.y[i]);
  }
  if (held.y.empty() || fit.y.empty()) held = fit = rows;

  const Matrix fit_matrix = matrix_of(fit);
  const Matrix held_matrix = matrix_of(held);
  const DMatrixHandle caches[] = {fit_matrix.get(), held_matrix.get()};
  BoosterHandle handle = nullptr;
  check(XGBoosterCreate(caches, 2, &handle));
  Booster booster(handle);
  for (const auto& [key, value] : plan.parameters) check(XGBoosterSetParam(handle, key, value.c_str()));

  double best = std::numeric_limits<double>::infinity();
  int best_round = 0;
  std::string best_linear;
  DMatrixHandle watched[] = {held_matrix.get()};
  const char* names[] = {"held"};
  for (int round = 0; round < plan.rounds && round - best_round <= plan.patience; ++round) {
    check(XGBoosterUpdateOneIter(handle, round, fit_matrix.get()));
    const char* text = nullptr;
    check(XGBoosterEvalOneIter(handle, round, watched, names, 1, &text));
    if (const double score = score_of(text); score < best) {
      best = score;
      best_round = round;
      if (!plan.trees) best_linear = saved(handle);  // a linear booster cannot be cut back to a round
    }
  }
  Trained trained;
  if (plan.trees) {
    BoosterHandle cut = nullptr;
    check(XGBoosterSlice(handle, 0, best_round + 1, 1, &cut));
    booster.reset(cut);
    trained.json = saved(cut);
  } else {
    trained.json = std::move(best_linear);
  }
  trained.quality.samples = static_cast<std::int64_t>(held.size());
  trained.quality.mae_ms = best;
  return trained;
}

Plan prefill_plan(const GbdtTraining& training) {
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

Result<void> enough(const Rows& rows, const char* what) {
  if (rows.size() >= kFewest) return {};
  return bad_input("samples", fmt::format("{} of {} alone, at least {} are needed", rows.size(), what, kFewest));
}

Result<Trained> try_train(const Rows& rows, const char* what, const Plan& plan, std::uint64_t seed) {
  if (auto ok = enough(rows, what); !ok) return std::unexpected(ok.error());
  try {
    return train(rows, plan, seed);
  } catch (const Failure&) {
    return external_failure("xgboost", XGBGetLastError());
  }
}

}  // namespace

Result<GbdtModels> train_gbdt(std::span<const predict::StepSample> samples, const GbdtTraining& training) {
  const Rows decode = rows_of(samples, true);
  if (auto ok = enough(decode, "decode"); !ok) return std::unexpected(ok.error());
  const Plan trees{"gbdt.decode.split",
                   training.held_out,
                   {{"booster", "gbtree"},
                    {"eta", "0.1"},
                    {"max_depth", std::to_string(training.decode_depth)},
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
                   true};
  auto first = try_train(rows_of(samples, false), "prefill", prefill_plan(training), training.seed);
  if (!first) return std::unexpected(first.error());
  auto second = try_train(decode, "decode", trees, training.seed);
  if (!second) return std::unexpected(second.error());
  return GbdtModels{std::move(first->json), std::move(second->json), first->quality, second->quality};
}

Result<std::string> train_rates(std::span<const EngineStep> samples, const RateTraining& training) {
  Rows rows{4, {}, {}};
  for (const auto& [tensor_parallel, s] : samples) {
    if (s.duration <= Span() || s.shape.decode_requests <= 0 || s.shape.prefill_tokens > 0) continue;
    rows.x.insert(rows.x.end(), {static_cast<float>(s.clock.value()), static_cast<float>(s.shape.decode_requests),
                                 static_cast<float>(s.shape.decode_kv_tokens), static_cast<float>(tensor_parallel)});
    rows.y.push_back(static_cast<float>(1.0 / s.duration.seconds()));
  }
  const Plan trees{"gbdt.rates.split",
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
  auto trained = try_train(rows, "decode", trees, training.seed);
  if (!trained) return std::unexpected(trained.error());
  return std::move(trained->json);
}

Result<predict::GbdtLatency> load_rates(const std::string& rates_json, std::int32_t tensor_parallel) {
  const auto rates = predict::GbdtTrees::from_json_at(rates_json, static_cast<float>(tensor_parallel));
  if (!rates) return std::unexpected(rates.error());
  return predict::GbdtLatency::make({{0.0F, 0.0F}, 0.0F, 0.0F}, *rates, predict::GbdtLatency::Target::Rate);
}

Result<predict::GbdtLatency> load_gbdt(const GbdtModels& models) {
  auto prefill = predict::LinearBooster::from_json(models.prefill_json, 2);
  if (!prefill) return std::unexpected(prefill.error());
  const auto decode = predict::GbdtTrees::from_json(models.decode_json);
  if (!decode) return std::unexpected(decode.error());
  return predict::GbdtLatency::make(std::move(*prefill), *decode);
}

}  // namespace wattle::learn
