#pragma once
// Ceilings on the clocks of GPUs, by their number: what is wanted of each, and what it gets. Pure.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "units/quantity.h"

namespace wattle::node {

class Ceilings {
 public:
  /// Somebody wants this clock of it; what it gets.
  [[nodiscard]] MegaHertz want(std::size_t gpu, MegaHertz clock) {
    Gpu& g = at(gpu);
    g.wanted = clock;
    return g.gets();
  }
  /// 0: none. What it gets from now on; none: what it has. One of which nobody has wanted a clock runs at `highest`.
  [[nodiscard]] std::optional<MegaHertz> set(std::size_t gpu, MegaHertz ceiling, MegaHertz highest) {
    Gpu& g = at(gpu);
    const MegaHertz before = g.gets() == MegaHertz(0) ? highest : g.gets();
    g.ceiling = ceiling;
    const MegaHertz now = g.gets() == MegaHertz(0) ? highest : g.gets();
    return now == before ? std::nullopt : std::optional(now);
  }
  [[nodiscard]] MegaHertz wanted(std::size_t gpu) const {
    return gpu < gpus_.size() ? gpus_[gpu].wanted : MegaHertz(0);
  }
  [[nodiscard]] MegaHertz ceiling(std::size_t gpu) const {
    return gpu < gpus_.size() ? gpus_[gpu].ceiling : MegaHertz(0);
  }

 private:
  struct Gpu {
    MegaHertz wanted{0};   ///< 0: nobody has said
    MegaHertz ceiling{0};  ///< 0: none
    [[nodiscard]] MegaHertz gets() const {
      if (ceiling == MegaHertz(0)) return wanted;
      return wanted == MegaHertz(0) ? ceiling : std::min(wanted, ceiling);
    }
  };
  [[nodiscard]] Gpu& at(std::size_t gpu) {
    if (gpu >= gpus_.size()) gpus_.resize(gpu + 1);
    return gpus_[gpu];
  }
  std::vector<Gpu> gpus_;
};

}  // namespace wattle::node
