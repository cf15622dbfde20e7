#include "predict/forecast/season.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "predict/forecast/forecaster.h"

namespace wattle::predict {

double quantile_of(std::vector<double>& values, double quantile) {
  const double rank = std::clamp(quantile, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::lround(rank));
  std::ranges::nth_element(values, at);
  return *at;
}

std::vector<double> typical_season(std::span<const double> values, std::int64_t first_step, std::size_t period,
                                   std::size_t smoothing, double quantile) {
  std::vector<std::vector<double>> seen(period);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) seen[phase_of(first_step + static_cast<std::int64_t>(i), period)].push_back(values[i]);
  }
  std::vector<double> all;
  for (const auto& place : seen) all.insert(all.end(), place.begin(), place.end());
  if (all.empty()) return std::vector<double>(period, kUnknown);
  std::vector<double> out(period, quantile_of(all, quantile));
  std::vector<double> near;
  for (std::size_t place = 0; place < period; ++place) {
    near.clear();
    const std::size_t reach = std::min(smoothing, (period - 1) / 2);
    for (std::size_t k = 0; k <= 2 * reach; ++k) {
      const auto& neighbour = seen[(place + period + k - reach) % period];
      near.insert(near.end(), neighbour.begin(), neighbour.end());
    }
    if (!near.empty()) out[place] = quantile_of(near, quantile);
  }
  return out;
}

namespace {
class Template final : public Forecaster {
 public:
  explicit Template(const TemplateOptions& options) : options_(options) {}
  const char* name() const override { return "template"; }
  std::size_t context() const override { return std::max<std::size_t>(options_.recent, 1); }

  Result<void> fit(const Panel& past) override {
    if (past.steps() < options_.period) {
      return bad_input("past",
                       fmt::format("has {} steps; a template needs a season of {}", past.steps(), options_.period));
    }
    seasons_.clear();
    for (const auto& one : past.series) {
      seasons_.push_back(typical_season(one, past.first_step, options_.period, options_.smoothing, options_.quantile));
    }
    return {};
  }

  Rows forecast(const Panel& recent, std::size_t horizon) const override {
    Rows out;
    for (std::size_t s = 0; s < recent.series.size(); ++s) {
      auto& row = out.emplace_back(horizon, kUnknown);
      if (s >= seasons_.size()) continue;
      double error = recent_error(recent, s);
      for (std::size_t h = 0; h < horizon; ++h) {
        error *= options_.decay;
        row[h] = at(s, recent.next_step() + static_cast<std::int64_t>(h)) + error;
      }
    }
    return out;
  }

 private:
  [[nodiscard]] double at(std::size_t s, std::int64_t step) const {
    return seasons_[s][phase_of(step, options_.period)];
  }
  [[nodiscard]] double recent_error(const Panel& recent, std::size_t s) const {
    const Panel last = recent.last(options_.recent);
    double sum = 0.0;
    double seen = 0.0;
    for (std::size_t i = 0; i < last.steps(); ++i) {
      const double v = last.series[s][i];
      if (std::isnan(v)) continue;
      sum += v - at(s, last.first_step + static_cast<std::int64_t>(i));
      seen += 1.0;
    }
    return seen > 0.0 ? sum / seen : 0.0;
  }

  TemplateOptions options_;
  Rows seasons_;
};
}  // namespace

std::unique_ptr<Forecaster> make_template(const TemplateOptions& options) {
  return std::make_unique<Template>(options);
}

}  // namespace wattle::predict
