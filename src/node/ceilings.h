#pragma once
// Ceilings on GPUs' clocks, by GPU number: the wanted clock and the resulting one. Pure.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "units/quantity.h"

namespace wattle::node {

class Ceilings {
 public:
  /// Sets the wanted clock; returns the resulting one.
  [[nodiscard]] MegaHertz want(std::size_t gpu, MegaHertz clock) {
    Gpu& g = at(gpu);
    g.wanted = clock;
    return g.gets();
  }
  /// Sets the ceiling (0: none). Returns the new clock; none: it has not changed. A GPU without a wanted clock runs at
  /// `highest`.
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
    MegaHertz wanted{0};   ///< 0: not set
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
