#pragma once
// The actual classes of finished requests against their predicted ones, and how many of them missed an objective.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "units/quantity.h"

namespace wattle {

/// Counts by predicted and actual class since some start; readers take differences with since().
class TurnedOut {
 public:
  void add(ClassId taken_for, ClassId was, std::int64_t requests = 1) {
    const auto t = static_cast<std::size_t>(std::max(taken_for.value(), 0));
    const auto w = static_cast<std::size_t>(std::max(was.value(), 0));
    if (t >= rows_.size()) rows_.resize(t + 1);
    if (w >= rows_[t].size()) rows_[t].resize(w + 1);
    rows_[t][w] += requests;
  }
  /// `requests` of those predicted to be of this class missed an objective.
  void add_late(ClassId taken_for, std::int64_t requests = 1) {
    const auto t = static_cast<std::size_t>(std::max(taken_for.value(), 0));
    if (t >= late_.size()) late_.resize(t + 1);
    late_[t] += requests;
  }
  void add(const TurnedOut& more) {
    more.each([this](ClassId taken_for, ClassId was, std::int64_t n) { add(taken_for, was, n); });
    for (std::size_t t = 0; t < more.late_.size(); ++t) add_late(id(t), more.late_[t]);
  }

  /// The counts added since `before`. If a count is smaller than before, counting has restarted, and all of it is
  /// returned.
  [[nodiscard]] TurnedOut since(const TurnedOut& before) const {
    TurnedOut fresh = *this;
    bool restarted = false;
    before.each([&](ClassId taken_for, ClassId was, std::int64_t n) {
      fresh.add(taken_for, was, -n);
      restarted = restarted || fresh.of(taken_for, was) < 0;
    });
    for (std::size_t t = 0; t < before.late_.size(); ++t) {
      fresh.add_late(id(t), -before.late_[t]);
      restarted = restarted || fresh.late_[t] < 0;
    }
    return restarted ? *this : fresh;
  }

  /// Calls f(predicted class, actual class, requests) for every pair with requests.
  template <typename F>
  void each(F f) const {
    for (std::size_t t = 0; t < rows_.size(); ++t) {
      for (std::size_t w = 0; w < rows_[t].size(); ++w) {
        if (rows_[t][w] != 0) f(id(t), id(w), rows_[t][w]);
      }
    }
  }
  /// By predicted, then by actual class; rows may be short, missing entries are 0.
  [[nodiscard]] const std::vector<std::vector<std::int64_t>>& rows() const { return rows_; }
  /// By predicted class; missing entries are 0.
  [[nodiscard]] const std::vector<std::int64_t>& late() const { return late_; }

 private:
  [[nodiscard]] static ClassId id(std::size_t i) { return ClassId(static_cast<std::int32_t>(i)); }
  [[nodiscard]] std::int64_t of(ClassId taken_for, ClassId was) const {
    return rows_[static_cast<std::size_t>(taken_for.value())][static_cast<std::size_t>(was.value())];
  }

  std::vector<std::vector<std::int64_t>> rows_;
  std::vector<std::int64_t> late_;
};

}  // namespace wattle
