#pragma once
// Engines that may run on the same GPUs, one after the other: places that a re-shard changes between. Whose clock
// counts, and whose the energy is. Pure.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "units/quantity.h"

namespace wattle::node {

/// While a gateway places engines (POST /plan), those that it does not place do not count: they do not run. Where
/// several count, as in the midst of a re-shard, a GPU gets the highest clock of theirs, and its energy is the first
/// one's. Where none is placed all count, as nobody knows.
class GpuShares {
 public:
  struct Command {
    std::size_t gpu;
    MegaHertz clock;
    bool operator==(const Command&) const = default;
  };
  /// GPUs are counted from 0, each once.
  void add(InstanceId engine, std::vector<std::size_t> gpus);
  /// It wants this clock; what its GPUs get.
  [[nodiscard]] std::vector<Command> command(InstanceId engine, MegaHertz clock);
  /// The gateway has begun or ceased to place it; GPUs whose clock changes by that.
  [[nodiscard]] std::vector<Command> place(InstanceId engine, bool placed);
  /// Whose energy it is.
  [[nodiscard]] InstanceId holder(std::size_t gpu) const;

 private:
  struct Engine {
    InstanceId id;
    std::vector<std::size_t> gpus;
    MegaHertz wanted{0};      ///< 0: it has not said
    std::int64_t placed = 0;  ///< counts up as engines are placed; 0: it is not
  };
  [[nodiscard]] Engine& find(InstanceId engine);
  [[nodiscard]] MegaHertz clock_of(std::size_t gpu) const;

  std::vector<Engine> engines_;
  std::vector<std::vector<std::size_t>> on_;  ///< engines by GPU
  std::int64_t placed_ = 0;
};

}  // namespace wattle::node
