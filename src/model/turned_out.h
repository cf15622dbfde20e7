#pragma once
// What requests turned out to be, once they had finished, beside the class that they had been taken for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "units/quantity.h"

namespace wattle {

/// Counts by both classes, since a beginning; who hears of them takes what is new.
class TurnedOut {
 public:
  void add(ClassId taken_for, ClassId was, std::int64_t requests = 1) {
    const auto t = static_cast<std::size_t>(std::max(taken_for.value(), 0));
    const auto w = static_cast<std::size_t>(std::max(was.value(), 0));
    if (t >= rows_.size()) rows_.resize(t + 1);
    if (w >= rows_[t].size()) rows_[t].resize(w + 1);
    rows_[t][w] += requests;
  }
  void add(const TurnedOut& more) {
    more.each([this](ClassId taken_for, ClassId was, std::int64_t n) { add(taken_for, was, n); });
  }

  /// What is here that was not in `before`. One that counts less than before has begun anew: all of it.
  [[nodiscard]] TurnedOut since(const TurnedOut& before) const {
    TurnedOut fresh = *this;
    bool anew = false;
    before.each([&](ClassId taken_for, ClassId was, std::int64_t n) {
      fresh.add(taken_for, was, -n);
      anew = anew || fresh.of(taken_for, was) < 0;
    });
    return anew ? *this : fresh;
  }

  /// f(taken for, was, requests), for every pair that there was.
  template <typename F>
  void each(F f) const {
    for (std::size_t t = 0; t < rows_.size(); ++t) {
      for (std::size_t w = 0; w < rows_[t].size(); ++w) {
        if (rows_[t][w] != 0) f(id(t), id(w), rows_[t][w]);
      }
    }
  }
  /// By the class taken for, then by what it was; rows may end early, what is missing is 0.
  [[nodiscard]] const std::vector<std::vector<std::int64_t>>& rows() const { return rows_; }

 private:
  [[nodiscard]] static ClassId id(std::size_t i) { return ClassId(static_cast<std::int32_t>(i)); }
  [[nodiscard]] std::int64_t of(ClassId taken_for, ClassId was) const {
    return rows_[static_cast<std::size_t>(taken_for.value())][static_cast<std::size_t>(was.value())];
  }

  std::vector<std::vector<std::int64_t>> rows_;
};

}  // namespace wattle
