#pragma once
// The earliest of n wake-ups, with O(log n) update and no stale entries: a winner tree. Ties go to the lower index.
#include <cstddef>
#include <vector>

#include "units/time.h"

namespace wattle::sim {

class WakeTree {
 public:
  explicit WakeTree(std::size_t leaves) { grow(leaves); }

  /// Room for so many; what is set stays.
  void grow(std::size_t leaves) {
    if (leaves <= leaves_ && !times_.empty()) return;
    while (leaves_ < leaves) leaves_ *= 2;
    times_.resize(leaves_, Instant::never());
    winners_.assign(2 * leaves_, 0);
    for (std::size_t i = 0; i < leaves_; ++i) winners_[leaves_ + i] = i;
    for (std::size_t node = leaves_ - 1; node >= 1; --node) play(node);
  }

  /// Those behind it move up.
  void remove(std::size_t leaf) {
    times_.erase(times_.begin() + static_cast<std::ptrdiff_t>(leaf));
    times_.push_back(Instant::never());
    for (std::size_t node = leaves_ - 1; node >= 1; --node) play(node);
  }

  void set(std::size_t leaf, Instant at) {
    if (times_[leaf] == at) return;
    times_[leaf] = at;
    std::size_t winner = leaf;
    for (std::size_t node = leaves_ + leaf; node > 1; node /= 2) {
      const std::size_t rival = winners_[node ^ 1];
      const Instant theirs = times_[rival];
      const bool rival_wins = theirs < at || (theirs == at && rival < winner);
      winner = rival_wins ? rival : winner;
      at = rival_wins ? theirs : at;
      winners_[node / 2] = winner;
    }
  }
  [[nodiscard]] std::size_t first() const { return winners_[1]; }
  [[nodiscard]] Instant at() const { return times_[first()]; }

 private:
  void play(std::size_t node) {
    const std::size_t left = winners_[2 * node];
    const std::size_t right = winners_[2 * node + 1];
    winners_[node] = times_[right] < times_[left] ? right : left;
  }

  std::size_t leaves_ = 1;
  std::vector<Instant> times_;
  std::vector<std::size_t> winners_;
};

}  // namespace wattle::sim
