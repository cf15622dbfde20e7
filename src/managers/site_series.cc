#include "managers/site_series.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace wattle::managers {

predict::Rows carried_on(predict::Forecaster* forecaster, const std::vector<std::vector<double>>& past,
                         std::size_t horizon, std::size_t least) {
  predict::Panel panel;
  for (const auto& one : past) panel.series.emplace_back(one);
  predict::Rows rows;
  if (forecaster != nullptr && panel.steps() >= std::max(least, forecaster->context())) {
    if (forecaster->fit(panel)) rows = forecaster->forecast(panel.last(forecaster->context()), horizon);
  }
  if (rows.size() != past.size()) rows.assign(past.size(), std::vector<double>(horizon, predict::kUnknown));
  for (std::size_t i = 0; i < past.size(); ++i) {
    const std::vector<double> known = predict::filled(past[i]);
    if (known.empty()) continue;
    for (double& value : rows[i]) value = std::isfinite(value) ? value : known.back();
  }
  return rows;
}

SiteSeries::SiteSeries(Known known, std::unique_ptr<predict::Forecaster> forecaster, const Options& options)
    : known_(std::move(known)), forecaster_(std::move(forecaster)), options_(options), past_(options.sites) {}

void SiteSeries::begin(Instant now) {
  for (std::size_t back = options_.past_slots + 1; back-- > 0;) {
    end_slot(now - options_.slot * static_cast<std::int64_t>(back));
  }
}

void SiteSeries::end_slot(Instant at) {
  for (std::size_t n = 0; n < past_.size(); ++n) past_[n].push_back(known(n, at).value_or(predict::kUnknown));
}

std::optional<predict::Rows> SiteSeries::ahead(std::size_t slots, Instant now) const {
  auto rows = carried_on(forecaster_.get(), past_, slots, options_.least_history);
  for (std::size_t n = 0; n < past_.size(); ++n) {
    const auto present = known(n, now);
    if (!present) return std::nullopt;
    std::ranges::rotate(rows[n], rows[n].end() - 1);  // what was forecast begins with the next slot
    rows[n].front() = *present;
    for (std::size_t t = 1; options_.given && t < slots; ++t) {
      rows[n][t] = known(n, now + options_.slot * static_cast<std::int64_t>(t)).value_or(rows[n][t - 1]);
    }
    if (!std::ranges::all_of(rows[n], [](double value) { return std::isfinite(value); })) return std::nullopt;
  }
  return rows;
}

}  // namespace wattle::managers
