#pragma once
// Engines that may run on the same GPUs, one after the other, as in a re-shard: whose clock counts, and to which engine
// energy is booked. Pure.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "units/quantity.h"

namespace wattle::node {

/// While a gateway places engines (POST /plan), those that it does not place are assumed not to run. If several are
/// placed on a GPU, as during a re-shard, it gets the highest of their clocks, and its energy is booked to the first
/// one. If none is placed, all count.
class GpuShares {
 public:
  struct Command {
    std::size_t gpu;
    MegaHertz clock;
    bool operator==(const Command&) const = default;
  };
  /// GPUs are numbered from 0, each listed once.
  void add(InstanceId engine, std::vector<std::size_t> gpus);
  /// The engine wants this clock; returns the commands for its GPUs.
  [[nodiscard]] std::vector<Command> command(InstanceId engine, MegaHertz clock);
  /// The gateway has begun or stopped placing it; returns the GPUs whose clock changes.
  [[nodiscard]] std::vector<Command> place(InstanceId engine, bool placed);
  /// The engine to which the GPU's energy is booked.
  [[nodiscard]] InstanceId holder(std::size_t gpu) const;

 private:
  struct Engine {
    InstanceId id;
    std::vector<std::size_t> gpus;
    MegaHertz wanted{0};      ///< 0: not set
    std::int64_t placed = 0;  ///< increasing number of its placement; 0: not placed
  };
  [[nodiscard]] Engine& find(InstanceId engine);
  [[nodiscard]] MegaHertz clock_of(std::size_t gpu) const;

  std::vector<Engine> engines_;
  std::vector<std::vector<std::size_t>> on_;  ///< engines by GPU
  std::int64_t placed_ = 0;
};

}  // namespace wattle::node
