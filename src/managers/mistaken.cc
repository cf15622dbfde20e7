#include "managers/mistaken.h"

#include <algorithm>

namespace wattle::managers {

Mistaken::Mistaken(const plan::LoadTable& table) : mean_(table.classes.size(), 1.0) {
  for (const auto& taken_for : table.classes) {
    auto& row = load_of_.emplace_back();
    for (const auto& was : table.classes) row.push_back(plan::load_in(was, taken_for));
  }
}

void Mistaken::learn(ClassId taken_for, ClassId was) {
  const auto c = static_cast<std::size_t>(taken_for.value());
  const auto w = static_cast<std::size_t>(was.value());
  if (c >= mean_.size() || w >= mean_.size()) return;
  mean_[c] += (load_of_[c][w] - mean_[c]) / kRemembered;
}

void Mistaken::weigh(std::vector<double>& rate_per_s) const {
  for (std::size_t c = 0; c < std::min(rate_per_s.size(), mean_.size()); ++c) rate_per_s[c] *= mean_[c];
}

}  // namespace wattle::managers
