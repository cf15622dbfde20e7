#include "predict/forecast/margins.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace wattle::predict {

Result<QuantileForecaster> QuantileForecaster::fit(std::unique_ptr<Forecaster> forecaster, const Panel& past,
                                                   const MarginOptions& options) {
  const auto kept = static_cast<std::size_t>(static_cast<double>(past.steps()) * (1.0 - options.held_back));
  if (auto ok = forecaster->fit(past.window(0, kept)); !ok) return std::unexpected(ok.error());
  std::vector<Rows> errors(past.series.size(), Rows(options.horizon));
  std::size_t origins = 0;
  const std::size_t first = std::max(kept, forecaster->context());
  for (std::size_t end = first; end + options.horizon <= past.steps();
       end += std::max<std::size_t>(options.stride, 1)) {
    const std::size_t look = std::min(end, forecaster->context());
    const Rows said = forecaster->forecast(past.window(end - look, look), options.horizon);
    for (std::size_t s = 0; s < said.size(); ++s) {
      for (std::size_t h = 0; h < options.horizon; ++h) {
        const double error = past.series[s][end + h] - said[s][h];
        if (!std::isnan(error)) errors[s][h].push_back(error);
      }
    }
    ++origins;
  }
  if (origins < options.least) {
    return bad_input("past",
                     fmt::format("holds {} origins to measure errors at; {} are needed", origins, options.least));
  }
  for (Rows& leads : errors) {
    for (auto& lead : leads) std::ranges::sort(lead);
  }
  if (auto ok = forecaster->fit(past); !ok) return std::unexpected(ok.error());
  return QuantileForecaster(std::move(forecaster), std::move(errors));
}

double QuantileForecaster::margin(std::size_t series, std::size_t step, double level) const {
  const auto& sorted = errors_[series][std::min(step, errors_[series].size() - 1)];
  if (sorted.empty()) return kUnknown;
  // rank of the (n + 1)-th part: what keeps the level for an error drawn like these
  const double rank = std::ceil(level * static_cast<double>(sorted.size() + 1)) - 1.0;
  return sorted[static_cast<std::size_t>(std::clamp(rank, 0.0, static_cast<double>(sorted.size() - 1)))];
}

Rows QuantileForecaster::forecast(const Panel& recent, std::size_t horizon, double level) const {
  Rows out = forecaster_->forecast(recent, horizon);
  for (std::size_t s = 0; s < out.size(); ++s) {
    for (std::size_t h = 0; h < horizon; ++h) out[s][h] += margin(s, h, level);
  }
  return out;
}

}  // namespace wattle::predict
