#include "node/gpu_shares.h"

#include <algorithm>
#include <utility>

namespace wattle::node {

void GpuShares::add(InstanceId engine, std::vector<std::size_t> gpus) {
  for (const std::size_t gpu : gpus) {
    if (gpu >= on_.size()) on_.resize(gpu + 1);
    on_[gpu].push_back(engines_.size());
  }
  engines_.push_back({engine, std::move(gpus)});
}

GpuShares::Engine& GpuShares::find(InstanceId engine) { return *std::ranges::find(engines_, engine, &Engine::id); }

MegaHertz GpuShares::clock_of(std::size_t gpu) const {
  const auto is_placed = [this](std::size_t e) { return engines_[e].placed > 0; };
  const bool any = std::ranges::any_of(on_[gpu], is_placed);
  MegaHertz highest{0};
  for (const std::size_t e : on_[gpu]) {
    if (!any || is_placed(e)) highest = std::max(highest, engines_[e].wanted);
  }
  return highest;
}

std::vector<GpuShares::Command> GpuShares::command(InstanceId engine, MegaHertz clock) {
  Engine& of = find(engine);
  of.wanted = clock;
  std::vector<Command> commands;
  for (const std::size_t gpu : of.gpus) {
    if (const MegaHertz now = clock_of(gpu); now != MegaHertz(0)) commands.push_back({gpu, now});
  }
  return commands;
}

std::vector<GpuShares::Command> GpuShares::place(InstanceId engine, bool placed) {
  Engine& of = find(engine);
  if ((of.placed > 0) == placed) return {};
  std::vector<MegaHertz> before;
  for (const std::size_t gpu : of.gpus) before.push_back(clock_of(gpu));
  of.placed = placed ? ++placed_ : 0;
  std::vector<Command> commands;
  for (std::size_t g = 0; g < of.gpus.size(); ++g) {
    const MegaHertz now = clock_of(of.gpus[g]);
    if (now != before[g] && now != MegaHertz(0)) commands.push_back({of.gpus[g], now});
  }
  return commands;
}

InstanceId GpuShares::holder(std::size_t gpu) const {
  const Engine* first = nullptr;
  for (const std::size_t e : on_[gpu]) {
    const Engine& engine = engines_[e];
    if (engine.placed > 0 && (first == nullptr || engine.placed < first->placed)) first = &engine;
  }
  return first != nullptr ? first->id : engines_[on_[gpu].front()].id;
}

}  // namespace wattle::node
