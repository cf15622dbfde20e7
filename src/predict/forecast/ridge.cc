#include <fmt/core.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "predict/forecast/forecaster.h"

namespace wattle::predict {

namespace {
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

Index to_index(std::size_t i) { return static_cast<Index>(i); }

class Ridge final : public Forecaster {
 public:
  explicit Ridge(const RidgeOptions& options) : options_(options) {}
  const char* name() const override { return "ridge"; }
  std::size_t context() const override {
    if (options_.period == 0) return options_.lags;
    const std::size_t ahead = (options_.horizon - 1) / options_.period;  // whole seasons a target may lie ahead
    return std::max(options_.lags, options_.period * (options_.seasons + ahead) + 1);
  }

  Result<void> fit(const Panel& past) override {
    const std::size_t needed = context() + options_.horizon + 2 * features();
    if (past.steps() < needed) {
      return bad_input("past", fmt::format("has {} steps; {} lags and {} seasons of {} need {}", past.steps(),
                                           options_.lags, options_.seasons, options_.period, needed));
    }
    models_.clear();
    for (const auto& one : past.series) {
      auto& leads = models_.emplace_back();
      const std::vector<double> values = filled(one);
      if (std::isnan(values.front())) return bad_input("past", "a series has no known value");
      double mean = 0.0;
      for (const double v : values) mean += v / static_cast<double>(values.size());
      for (std::size_t h = 0; h < options_.horizon; ++h) leads.push_back(fit_lead(values, one, h, mean));
      means_.resize(models_.size());
      means_.back() = mean;
    }
    return {};
  }

  Rows forecast(const Panel& recent, std::size_t horizon) const override {
    Rows out;
    std::vector<double> x(features());
    for (std::size_t s = 0; s < recent.series.size(); ++s) {
      auto& row = out.emplace_back(horizon, kUnknown);
      const std::vector<double> values = filled(recent.series[s]);
      if (s >= models_.size() || values.size() < context() || std::isnan(values.front())) continue;
      for (std::size_t h = 0; h < std::min(horizon, options_.horizon); ++h) {
        describe(values, values.size(), h, means_[s], x);
        row[h] = values.back() + Eigen::Map<const VectorXd>(x.data(), to_index(x.size())).dot(models_[s][h]);
      }
    }
    return out;
  }

 private:
  [[nodiscard]] std::size_t features() const {
    return options_.lags + 1 + (options_.period > 0 ? 2 * options_.seasons : 0);
  }

  /// What is known at `end` (the number of values so far) about the step h after it, all as differences: shrunk to
  /// nothing, the model is persistence, and a level never seen before does not upset it.
  void describe(std::span<const double> values, std::size_t end, std::size_t h, double mean,
                std::span<double> x) const {
    const double last = values[end - 1];
    std::size_t i = 0;
    for (std::size_t lag = 2; lag <= options_.lags; ++lag) x[i++] = values[end - lag] - last;
    x[i++] = last - mean;
    if (options_.period > 0) {
      std::size_t back = options_.period;
      while (back <= h) back += options_.period;  // the target's place in the last whole season
      for (std::size_t k = 0; k < options_.seasons; ++k, back += options_.period) {
        const double then = values[end - 1 - back];
        x[i++] = values[end + h - back] - then;
        x[i++] = then - last;
      }
    }
    x[i] = 1.0;
  }

  [[nodiscard]] VectorXd fit_lead(std::span<const double> values, std::span<const double> known, std::size_t h,
                                  double mean) const {
    const Index p = to_index(features());
    MatrixXd xx = MatrixXd::Zero(p, p);
    VectorXd xy = VectorXd::Zero(p);
    std::vector<double> x(features());
    const Eigen::Map<const VectorXd> row(x.data(), p);
    for (std::size_t end = context(); end + h < values.size(); ++end) {
      if (std::isnan(known[end + h])) continue;  // a filled value is nothing to learn from
      describe(values, end, h, mean, x);
      xx.selfadjointView<Eigen::Lower>().rankUpdate(row);
      xy += row * (values[end + h] - values[end - 1]);
    }
    const double scale = xx.diagonal().head(p - 1).mean();
    xx.diagonal().array() += options_.penalty * std::max(scale, 1e-12);
    return xx.selfadjointView<Eigen::Lower>().ldlt().solve(xy);
  }

  RidgeOptions options_;
  std::vector<std::vector<VectorXd>> models_;  ///< by series and lead
  std::vector<double> means_;
};
}  // namespace

std::unique_ptr<Forecaster> make_ridge(const RidgeOptions& options) { return std::make_unique<Ridge>(options); }

}  // namespace wattle::predict
