#include "plan/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/matching.h"

namespace wattle::plan {

namespace {

/// Slices [first, last) of the weights.
struct Slices {
  int first = 0, last = 0;
  [[nodiscard]] bool holds(int slice) const { return first <= slice && slice < last; }
  [[nodiscard]] int count() const { return last - first; }
};

int overlap(Slices a, Slices b) { return std::max(0, std::min(a.last, b.last) - std::max(a.first, b.first)); }

Result<void> check(const ReshardProblem& problem) {
  if (problem.gpus_per_node < 1 || problem.nodes < 1) return bad_input("nodes", "needs at least one node of one GPU");
  if (problem.slices < 1) return bad_input("slices", "must be at least 1");
  const bool numbers = problem.weight_bytes >= 0 && problem.gpu_bytes >= 0 && problem.kv_in_use >= 0 &&
                       problem.kv_at_start >= 0 && problem.runtime_bytes >= 0 && problem.link_bytes_per_s > 0.0 &&
                       problem.host_bytes_per_s > 0.0 && problem.sync >= Span();
  if (!numbers) return bad_input("problem", "bytes must be at least 0 and rates above 0");
  std::vector<bool> used(static_cast<std::size_t>(problem.gpus_per_node * problem.nodes), false);
  for (std::size_t i = 0; i < problem.present.size(); ++i) {
    if (problem.present[i].gpus.empty()) return bad_input(fmt::format("present {}", i), "has no GPUs");
    for (const int gpu : problem.present[i].gpus) {
      if (gpu < 0 || gpu >= static_cast<int>(used.size())) {
        return bad_input(fmt::format("present {}", i), fmt::format("GPU {} does not exist", gpu));
      }
      if (used[static_cast<std::size_t>(gpu)]) {
        return bad_input(fmt::format("present {}", i), fmt::format("GPU {} is used twice", gpu));
      }
      used[static_cast<std::size_t>(gpu)] = true;
    }
  }
  std::vector<int> asked(static_cast<std::size_t>(problem.nodes), 0);
  for (std::size_t i = 0; i < problem.next.size(); ++i) {
    const auto& [tp, node] = problem.next[i];
    if (tp < 1 || node < 0 || node >= problem.nodes) {
      return bad_input(fmt::format("next {}", i), "needs a TP degree of at least 1 and a node that exists");
    }
    asked[static_cast<std::size_t>(node)] += tp;
  }
  for (int node = 0; node < problem.nodes; ++node) {
    if (asked[static_cast<std::size_t>(node)] > problem.gpus_per_node) {
      return bad_input(
          fmt::format("node {}", node),
          fmt::format("{} GPUs asked for, {} there", asked[static_cast<std::size_t>(node)], problem.gpus_per_node));
    }
  }
  return {};
}

class Resharding {
 public:
  explicit Resharding(const ReshardProblem& problem) : problem_(problem), gpus_(problem.gpus_per_node * problem.nodes) {
    plan_.slices_per_model = problem.slices;
    for (const PlacedInstance& instance : problem.present) {
      plan_.slices_per_model = std::lcm(plan_.slices_per_model, static_cast<int>(instance.gpus.size()));
    }
    for (const WantedInstance& instance : problem.next) {
      plan_.slices_per_model = std::lcm(plan_.slices_per_model, instance.tp);
    }
    held_.resize(static_cast<std::size_t>(gpus_));
    wanted_.resize(held_.size());
    for (const PlacedInstance& instance : problem.present) {
      const int tp = static_cast<int>(instance.gpus.size());
      for (int j = 0; j < tp; ++j) held_[at(instance.gpus[at(j)])] = shard(j, tp);
    }
  }

  ReshardPlan run() {
    place();
    for (int gpu = 0; gpu < gpus_; ++gpu) fetch(gpu);
    finish();
    return std::move(plan_);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] Slices shard(int j, int tp) const {
    return {j * plan_.slices_per_model / tp, (j + 1) * plan_.slices_per_model / tp};
  }
  [[nodiscard]] std::int64_t bytes(int slices) const { return problem_.weight_bytes * slices / plan_.slices_per_model; }

  void place() {
    struct Shard {
      std::size_t instance;
      int index;
    };
    std::vector<Shard> shards;
    std::vector<MatchEdge> edges;
    const std::vector<int> keeps = kept();
    // A heavier weight than all ties together: bytes in place count first, then instances that can stay whole.
    const std::int64_t unit = gpus_ + 1;
    for (std::size_t i = 0; i < problem_.next.size(); ++i) {
      const auto& [tp, node] = problem_.next[i];
      for (int j = 0; j < tp; ++j) {
        for (int gpu = node * problem_.gpus_per_node; gpu < (node + 1) * problem_.gpus_per_node; ++gpu) {
          const bool stays = keeps[i] >= 0 && problem_.present[at(keeps[i])].gpus[at(j)] == gpu;
          edges.push_back(
              {static_cast<int>(shards.size()), gpu, overlap(shard(j, tp), held_[at(gpu)]) * unit + (stays ? 1 : 0)});
        }
        shards.push_back({i, j});
      }
    }
    const std::vector<int> match = max_weight_assignment(static_cast<int>(shards.size()), gpus_, edges);
    plan_.placed.resize(problem_.next.size());
    for (std::size_t i = 0; i < problem_.next.size(); ++i) plan_.placed[i].gpus.resize(at(problem_.next[i].tp));
    for (std::size_t s = 0; s < shards.size(); ++s) {
      const int tp = problem_.next[shards[s].instance].tp;
      plan_.placed[shards[s].instance].gpus[at(shards[s].index)] = match[s];
      wanted_[at(match[s])] = shard(shards[s].index, tp);
    }
  }

  /// Next instances that look like a present one, each with one of its own: index of the present one, or -1.
  [[nodiscard]] std::vector<int> kept() const {
    std::vector<int> keeps(problem_.next.size(), -1);
    std::vector<bool> taken(problem_.present.size(), false);
    for (std::size_t i = 0; i < keeps.size(); ++i) {
      for (std::size_t k = 0; k < taken.size() && keeps[i] < 0; ++k) {
        const auto& gpus = problem_.present[k].gpus;
        const bool same = !taken[k] && gpus.size() == at(problem_.next[i].tp) &&
                          gpus[0] / problem_.gpus_per_node == problem_.next[i].node;
        if (!same) continue;
        keeps[i] = static_cast<int>(k);
        taken[k] = true;
      }
    }
    return keeps;
  }

  /// Shares the slices that `gpu` misses out over their holders, so that the busiest link carries as little as can be.
  void fetch(int gpu) {
    std::vector<int> missing, from_host, sources;
    const int node = gpu / problem_.gpus_per_node;
    for (int source = node * problem_.gpus_per_node; source < (node + 1) * problem_.gpus_per_node; ++source) {
      if (source != gpu && overlap(held_[at(source)], wanted_[at(gpu)]) > 0) sources.push_back(source);
    }
    for (int slice = wanted_[at(gpu)].first; slice < wanted_[at(gpu)].last; ++slice) {
      if (held_[at(gpu)].holds(slice)) continue;
      const bool there = std::ranges::any_of(sources, [&](int s) { return held_[at(s)].holds(slice); });
      (there ? missing : from_host).push_back(slice);
    }
    std::vector<int> source_of;  // by missing slice: index into sources
    for (int most = 1; most <= static_cast<int>(missing.size()); ++most) {
      source_of = share_out(missing, sources, most);
      if (!source_of.empty()) break;
    }
    for (std::size_t s = 0; s < sources.size(); ++s) {
      std::vector<int> carried;
      for (std::size_t k = 0; k < missing.size(); ++k) {
        if (source_of[k] == static_cast<int>(s)) carried.push_back(missing[k]);
      }
      send(sources[s], gpu, carried, problem_.link_bytes_per_s);
    }
    send(-1, gpu, from_host, problem_.host_bytes_per_s);
  }

  /// Every slice to a source that holds it, none with more than `most`; empty when that cannot be. Augmenting paths.
  [[nodiscard]] std::vector<int> share_out(const std::vector<int>& slices, const std::vector<int>& sources,
                                           int most) const {
    std::vector<int> source_of(slices.size(), -1);
    std::vector<std::vector<std::size_t>> carried(sources.size());
    for (std::size_t k = 0; k < slices.size(); ++k) {
      std::vector<bool> seen(sources.size(), false);
      if (!augment(k, slices, sources, at(most), source_of, carried, seen)) return {};
    }
    return source_of;
  }

  bool augment(std::size_t k, const std::vector<int>& slices, const std::vector<int>& sources, std::size_t most,
               std::vector<int>& source_of, std::vector<std::vector<std::size_t>>& carried,
               std::vector<bool>& seen) const {
    for (std::size_t s = 0; s < sources.size(); ++s) {
      if (seen[s] || !held_[at(sources[s])].holds(slices[k])) continue;
      seen[s] = true;
      const auto take = [&] {
        carried[s].push_back(k);
        source_of[k] = static_cast<int>(s);
        return true;
      };
      if (carried[s].size() < most) return take();
      for (std::size_t i = 0; i < carried[s].size(); ++i) {
        const std::size_t other = carried[s][i];
        if (!augment(other, slices, sources, most, source_of, carried, seen)) continue;
        std::erase(carried[s], other);  // it has moved to another source
        return take();
      }
    }
    return false;
  }

  /// One link's transfers, one after the other; neighbouring slices travel together.
  void send(int from, int to, const std::vector<int>& slices, double bytes_per_s) {
    Span now;
    for (std::size_t k = 0; k < slices.size();) {
      Transfer transfer{
          .from = from, .to = to, .first_slice = slices[k], .slices = 0, .bytes = 0, .start = now, .finish = now};
      for (; k < slices.size() && slices[k] == transfer.first_slice + transfer.slices; ++k) ++transfer.slices;
      transfer.bytes = bytes(transfer.slices);
      now += Span::from_seconds(static_cast<double>(transfer.bytes) / bytes_per_s);
      transfer.finish = now;
      plan_.transfer_time = std::max(plan_.transfer_time, now);
      plan_.transfers.push_back(transfer);
    }
  }

  void finish() {
    bool changed = false;
    for (const PlacedInstance& instance : problem_.present) {
      OldInstance old;
      old.unchanged = std::ranges::find(plan_.placed, instance) != plan_.placed.end();
      if (old.unchanged) {
        old.reason = "stays as it is";
      } else {
        decide(instance, old);
        changed = true;
      }
      plan_.old.push_back(old);
    }
    for (const PlacedInstance& instance : plan_.placed) {
      changed = changed || std::ranges::find(problem_.present, instance) == problem_.present.end();
    }
    if (changed && !problem_.next.empty()) plan_.total_time = plan_.transfer_time + problem_.sync;
  }

  /// The old instance serves on if on each of its GPUs old and new fit together; weights in place count once.
  void decide(const PlacedInstance& instance, OldInstance& old) const {
    old.reason = "old and new fit in memory together";
    if (problem_.gpu_bytes == 0) return;
    for (const int gpu : instance.gpus) {
      const Slices held = held_[at(gpu)], wanted = wanted_[at(gpu)];
      const bool joins = wanted.count() > 0;
      const std::int64_t weights = bytes(held.count() + wanted.count() - overlap(held, wanted));
      const std::int64_t fixed =
          weights + problem_.runtime_bytes + (joins ? problem_.runtime_bytes + problem_.kv_at_start : 0);
      const std::int64_t room = problem_.gpu_bytes - fixed;
      if (room < problem_.kv_in_use) {
        old.serves_on = false;
        old.throughput_lost = 1.0;
        old.reason =
            fmt::format("GPU {}: old and new need {} of {} bytes", gpu, fixed + problem_.kv_in_use, problem_.gpu_bytes);
        return;
      }
      const std::int64_t before = problem_.gpu_bytes - bytes(held.count()) - problem_.runtime_bytes;
      // Throughput follows the KV cache that is left (section IV-C).
      const double lost = before > 0 ? 1.0 - static_cast<double>(room) / static_cast<double>(before) : 0.0;
      old.throughput_lost = std::max(old.throughput_lost, lost);
    }
  }

  const ReshardProblem& problem_;
  const int gpus_;
  std::vector<Slices> held_, wanted_;  ///< by GPU
  ReshardPlan plan_;
};

}  // namespace

Result<ReshardPlan> plan_reshard(const ReshardProblem& problem) {
  if (auto ok = check(problem); !ok) return std::unexpected(ok.error());
  return Resharding(problem).run();
}

}  // namespace wattle::plan
