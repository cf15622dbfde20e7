#include "reproduce/freesh_power.h"

#include <algorithm>
#include <cctype>

#include "reproduce/freesh.h"

namespace wattle::reproduce::freesh {

namespace {

/// "a100-80g" is A100 in the release, "h100-pcie" H100.
bool is_kind(const std::string& gpu, const std::string& kind) {
  return std::ranges::equal(gpu.substr(0, gpu.find('-')), kind, {}, [](unsigned char c) { return std::toupper(c); });
}

}  // namespace

double power_share(MegaHertz clock, MegaHertz most) {
  constexpr double kFloor_mhz = 300.0;
  const double along = (clock.value() - kFloor_mhz) / (most.value() - kFloor_mhz);
  return kIdleShare + (1.0 - kIdleShare) * std::clamp(along, 0.0, 1.0);
}

RatedPower::RatedPower(const std::vector<plan::PoolsProblem>& episodes, std::size_t partition, bool pooled, Span period)
    : episodes_(episodes), partition_(partition), pooled_(pooled), period_(period) {}

Watts RatedPower::rating_of(const InstanceSpec& spec) const {
  const plan::PoolsProblem& problem = episodes_.front();
  std::size_t mode = problem.modes.size();
  for (std::size_t m = 0; m < problem.modes.size(); ++m) {
    for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
      if (is_kind(spec.gpu.name, problem.kinds[k]) && problem.modes[m].gpus[k] == spec.tensor_parallel) mode = m;
    }
  }
  if (mode == problem.modes.size()) return Watts();
  const auto& types = problem.partitions[partition_].types;
  const auto rating = [&](std::size_t r) {
    return r < types.size() && types[r].ratings[mode] ? types[r].ratings[mode]->peak : Watts();
  };
  if (!pooled_) return rating(static_cast<std::size_t>(spec.pool.value()));
  double all = 0.0, watts = 0.0;
  for (std::size_t r = 0; r < types.size(); ++r) {
    for (const double demand : types[r].demand_per_s) {
      all += demand;
      watts += demand * rating(r).value();
    }
  }
  return Watts(all > 0.0 ? watts / all : 0.0);
}

void RatedPower::joined(const journal::Instance& instance) {
  workers_[instance.id] = {static_cast<std::size_t>(instance.spec.site.value()), rating_of(instance.spec),
                           instance.spec.gpu.clock_max, Picojoules()};
}

void RatedPower::sample(const journal::Sample& sample) {
  const auto found = workers_.find(sample.instance);
  if (found == workers_.end() || sample.at == Instant()) return;
  Worker& worker = found->second;
  const Joules energy(worker.rating.value() * power_share(sample.clock, worker.most) * period_.seconds());
  // The sample ends the period that it stands for.
  const auto slot = static_cast<std::size_t>((sample.at - period_ - Instant()).seconds() / 300.0);
  const std::size_t each = episodes_.front().sites[worker.site].intensity.size();
  const bool in_time = slot < each * episodes_.size();
  const std::size_t known = std::min(slot, each * episodes_.size() - 1);  // the last one goes on, as in the ledger
  const GramsPerKwh intensity = episodes_[known / each].sites[worker.site].intensity[known % each];
  const GramsCo2 carbon(energy.value() / 3.6e6 * intensity.value());
  rated_.energy += energy;
  rated_.carbon += carbon;
  if (!in_time) return;
  rated_in_time_.energy += energy;
  rated_in_time_.carbon += carbon;
  worker.booked = sample.energy;
}

Joules RatedPower::booked_in_time() const {
  double joules = 0.0;
  for (const auto& [id, worker] : workers_) joules += static_cast<double>(worker.booked.value()) * 1e-12;
  return Joules(joules);
}

}  // namespace wattle::reproduce::freesh
