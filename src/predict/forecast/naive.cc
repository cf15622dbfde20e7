#include <algorithm>
#include <cmath>

#include "predict/forecast/forecaster.h"

namespace wattle::predict {

std::vector<double> filled(std::span<const double> values) {
  std::vector<double> out(values.begin(), values.end());
  const auto first = std::ranges::find_if(out, [](double v) { return !std::isnan(v); });
  if (first == out.end()) return out;
  std::fill(out.begin(), first, *first);
  for (std::size_t i = 1; i < out.size(); ++i) {
    if (std::isnan(out[i])) out[i] = out[i - 1];
  }
  return out;
}

namespace {
double last_known(std::span<const double> values) {
  for (auto at = values.rbegin(); at != values.rend(); ++at) {
    if (!std::isnan(*at)) return *at;
  }
  return kUnknown;
}

class Persistence final : public Forecaster {
 public:
  const char* name() const override { return "persistence"; }
  Result<void> fit(const Panel&) override { return {}; }
  Rows forecast(const Panel& recent, std::size_t horizon) const override {
    Rows out;
    for (const auto& one : recent.series) out.emplace_back(horizon, last_known(one));
    return out;
  }
  std::size_t context() const override { return 12; }
};

class SeasonalNaive final : public Forecaster {
 public:
  explicit SeasonalNaive(std::size_t period) : period_(period) {}
  const char* name() const override { return "seasonal-naive"; }
  Result<void> fit(const Panel&) override { return {}; }
  Rows forecast(const Panel& recent, std::size_t horizon) const override {
    Rows out;
    for (const auto& one : recent.series) {
      auto& row = out.emplace_back(horizon, last_known(one));
      for (std::size_t h = 0; h < horizon; ++h) {
        for (std::size_t back = period_; back <= one.size() + h; back += period_) {
          if (back <= h) continue;  // still ahead
          if (const double v = one[one.size() + h - back]; !std::isnan(v)) {
            row[h] = v;
            break;
          }
        }
      }
    }
    return out;
  }
  std::size_t context() const override { return 3 * period_; }

 private:
  std::size_t period_;
};
}  // namespace

std::unique_ptr<Forecaster> make_persistence() { return std::make_unique<Persistence>(); }
std::unique_ptr<Forecaster> make_seasonal_naive(std::size_t period) { return std::make_unique<SeasonalNaive>(period); }

}  // namespace wattle::predict
