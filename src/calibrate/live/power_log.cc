#include "calibrate/live/power_log.h"

#include <algorithm>
#include <chrono>

#include "net/clock.h"

namespace wattle::calibrate {

PowerLog::PowerLog(std::vector<node::Gpu> gpus, Span period) : gpus_(std::move(gpus)), period_(period) {
  for (const node::Gpu& gpu : gpus_) meters_.emplace_back(gpu.power_reading());
  thread_ = std::thread([this] { run(); });
}

PowerLog::~PowerLog() {
  stop_ = true;
  thread_.join();
}

void PowerLog::run() {
  while (!stop_) {
    Sample sample{Instant(), Picojoules(), MegaHertz(0)};
    bool whole = true;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const auto counter = gpus_[i].energy_counter_mj();
      const auto power = gpus_[i].power();
      const auto clock = gpus_[i].sm_clock();
      sample.at = net::steady_now();
      if (!power.ok() || !clock.ok() || (!counter.ok() && counter.status() != node::GpuStatus::Absent)) {
        whole = false;
        continue;
      }
      meters_[i].sample(counter.ok() ? std::optional(counter.value) : std::nullopt, power.value, sample.at);
      sample.total += meters_[i].total();
      if (sample.clock == MegaHertz(0) || clock.value < sample.clock) sample.clock = clock.value;
    }
    if (whole) {
      const std::lock_guard guard(mutex_);
      samples_.push_back(sample);
    } else {
      ++failures_;
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(period_.ns()));
  }
}

std::optional<Milliwatts> PowerLog::mean_power(Instant begin, Instant end) const {
  if (end - begin < kShortest) return std::nullopt;
  std::unique_lock lock(mutex_);
  const Instant patience = net::steady_now() + kShortest;
  while ((samples_.empty() || samples_.back().at < end) && net::steady_now() < patience) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::nanoseconds(period_.ns()));
    lock.lock();
  }
  const auto total_at = [&](Instant t) -> std::optional<Picojoules> {
    const auto after = std::ranges::lower_bound(samples_, t, {}, &Sample::at);
    if (after == samples_.begin() || after == samples_.end()) return std::nullopt;
    const auto before = after - 1;
    if (after->at - before->at > kShortest / 10) return std::nullopt;  // no samples in between
    const Int128 rise = (after->total - before->total).value();
    return before->total + Picojoules(rise * (t - before->at).ns() / (after->at - before->at).ns());
  };
  const auto from = total_at(begin);
  const auto to = total_at(end);
  if (!from || !to) return std::nullopt;
  return Milliwatts(static_cast<std::int64_t>((*to - *from).value() / (end - begin).ns()));
}

std::optional<MegaHertz> PowerLog::median_clock(Instant begin, Instant end) const {
  const std::lock_guard guard(mutex_);
  std::vector<MegaHertz> clocks;
  for (auto s = std::ranges::lower_bound(samples_, begin, {}, &Sample::at); s != samples_.end() && s->at <= end; ++s) {
    clocks.push_back(s->clock);
  }
  if (clocks.empty()) return std::nullopt;
  std::ranges::sort(clocks);
  return clocks[clocks.size() / 2];
}

}  // namespace wattle::calibrate
