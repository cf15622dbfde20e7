#include "managers/load_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "predict/forecast/season.h"

namespace wattle::managers {

namespace {
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
}

LoadHistory::LoadHistory(std::size_t classes, const LoadForecastOptions& options)
    : options_(options), slots_(classes) {}

void LoadHistory::begin_with(std::vector<std::vector<double>> past) {
  past.resize(slots_.size());
  std::size_t longest = 0;
  for (const auto& one : past) longest = std::max(longest, one.size());
  for (auto& one : past) one.insert(one.begin(), longest - one.size(), kUnknown);
  slots_ = std::move(past);
  first_ = -static_cast<std::int64_t>(longest);
}

void LoadHistory::add(std::span<const double> rate_per_s, Instant now) {
  seen_ = std::max(seen_, now);
  // What ends at a slot's border was seen in the slot before.
  const std::int64_t slot = std::max<std::int64_t>(0, (now.ns() - 1) / options_.slot.ns());
  const auto at = static_cast<std::size_t>(std::max<std::int64_t>(0, slot - first_));
  for (std::size_t c = 0; c < slots_.size(); ++c) {
    auto& one = slots_[c];
    if (at >= one.size()) one.resize(at + 1, kUnknown);
    const double rate = c < rate_per_s.size() ? rate_per_s[c] : 0.0;
    one[at] = std::isnan(one[at]) ? rate : std::max(one[at], rate);
  }
}

std::vector<double> LoadHistory::peak(Instant from, Instant until) const {
  std::vector<double> peaks(slots_.size(), 0.0);
  const auto season = static_cast<std::size_t>(options_.season.ns() / options_.slot.ns());
  const std::int64_t begin = slot_of(from);
  const std::int64_t end = std::max(begin + 1, (until.ns() + options_.slot.ns() - 1) / options_.slot.ns());
  for (std::size_t c = 0; c < slots_.size(); ++c) {
    const auto& one = slots_[c];
    const auto take = [&](double rate) {
      if (!std::isnan(rate)) peaks[c] = std::max(peaks[c], rate * (1.0 + options_.headroom));
    };
    if (season > 0 && one.size() >= season) {
      const auto typical = predict::typical_season(one, first_, season, 1, options_.quantile);
      for (std::int64_t slot = begin; slot < end; ++slot) {
        const auto count = static_cast<std::int64_t>(season);
        take(typical[static_cast<std::size_t>(((slot % count) + count) % count)]);
      }
    } else {
      // A slot that still runs may have only just begun: by itself it says little.
      const std::int64_t fewest = seen_.ns() % options_.slot.ns() == 0 ? 1 : 2;
      const auto wanted = static_cast<std::size_t>(std::max(fewest, end - begin));
      for (std::size_t i = one.size() - std::min(one.size(), wanted); i < one.size(); ++i) take(one[i]);
    }
  }
  return peaks;
}

std::vector<double> LoadHistory::present() const {
  std::vector<double> rates(slots_.size(), 0.0);
  for (std::size_t c = 0; c < slots_.size(); ++c) {
    const auto& one = slots_[c];
    for (std::size_t i = one.size() - std::min<std::size_t>(one.size(), 2); i < one.size(); ++i) {
      if (!std::isnan(one[i])) rates[c] = std::max(rates[c], one[i]);
    }
  }
  return rates;
}

}  // namespace wattle::managers
