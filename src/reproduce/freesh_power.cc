#include "reproduce/freesh_power.h"

#include <algorithm>
#include <cctype>
#include <utility>

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

RatedPower::RatedPower(const plan::PoolsProblem& problem, std::size_t partition, bool pooled,
                       std::vector<carbon::SiteRates> sites, Instant end)
    : problem_(problem), partition_(partition), pooled_(pooled), ledger_(std::move(sites)), end_(end) {}

Watts RatedPower::rating_of(const InstanceSpec& spec) const {
  std::size_t mode = problem_.modes.size();
  for (std::size_t m = 0; m < problem_.modes.size(); ++m) {
    for (std::size_t k = 0; k < problem_.kinds.size(); ++k) {
      if (is_kind(spec.gpu.name, problem_.kinds[k]) && problem_.modes[m].gpus[k] == spec.tensor_parallel) mode = m;
    }
  }
  if (mode == problem_.modes.size()) return Watts();
  const auto& types = problem_.partitions[partition_].types;
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
  const InstanceId in_ledger(static_cast<std::int32_t>(workers_.size()));
  ledger_.add_instance(now_, instance.spec.tensor_parallel, instance.spec.site);
  workers_[instance.id] = {in_ledger, rating_of(instance.spec), instance.spec.gpu.clock_max, Picojoules()};
}

void RatedPower::decision(const journal::DecisionRecord& record) {
  if (record.kind != journal::DecisionKind::Phase || record.value != static_cast<std::int64_t>(Phase::Gone)) return;
  now_ = record.at;
  const auto found = workers_.find(record.instance);
  if (found != workers_.end()) ledger_.power_changes(found->second.in_ledger, record.at, Milliwatts(0), 0, 0);
}

void RatedPower::sample(const journal::Sample& sample) {
  if (!rated_in_time_ && sample.at >= end_) {
    ledger_.close(sample.at);
    rated_in_time_ = ledger_.fleet();
  }
  now_ = sample.at;
  const auto found = workers_.find(sample.instance);
  if (found == workers_.end()) return;
  Worker& worker = found->second;
  const Watts watts(worker.rating.value() * power_share(sample.clock, worker.most));
  ledger_.power_changes(worker.in_ledger, sample.at, to_milliwatts(watts), 0, 0);
  if (sample.at <= end_) worker.booked = sample.energy;
}

carbon::Totals RatedPower::rated_in_time() { return rated_in_time_ ? *rated_in_time_ : rated(); }

carbon::Totals RatedPower::rated() {
  ledger_.close(now_);
  return ledger_.fleet();
}

Picojoules RatedPower::booked_in_time() const {
  Picojoules all;
  for (const auto& [id, worker] : workers_) all += worker.booked;
  return all;
}

}  // namespace wattle::reproduce::freesh
