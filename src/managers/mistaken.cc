#include "managers/mistaken.h"

#include <algorithm>
#include <cmath>

namespace wattle::managers {

Mistaken::Mistaken(const plan::LoadTable& table) : mean_(table.classes.size(), 1.0) {
  for (const auto& taken_for : table.classes) {
    auto& row = load_of_.emplace_back();
    for (const auto& was : table.classes) row.push_back(plan::load_in(was, taken_for));
  }
}

void Mistaken::learn(const TurnedOut& fresh) {
  std::vector<double> load(mean_.size(), 0.0), requests(mean_.size(), 0.0);
  fresh.each([&](ClassId taken_for, ClassId was, std::int64_t n) {
    const auto c = static_cast<std::size_t>(taken_for.value());
    const auto w = static_cast<std::size_t>(was.value());
    if (c >= mean_.size() || w >= mean_.size()) return;
    load[c] += load_of_[c][w] * static_cast<double>(n);
    requests[c] += static_cast<double>(n);
  });
  for (std::size_t c = 0; c < mean_.size(); ++c) {
    if (requests[c] == 0.0) continue;
    // As many steps of an exponential mean, each by what they were on average.
    const double kept = std::exp(-requests[c] / kRemembered);
    mean_[c] = kept * mean_[c] + (1.0 - kept) * load[c] / requests[c];
  }
}

void Mistaken::weigh(std::vector<double>& rate_per_s) const {
  for (std::size_t c = 0; c < std::min(rate_per_s.size(), mean_.size()); ++c) rate_per_s[c] *= mean_[c];
}

}  // namespace wattle::managers
