#include "node/actuator.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "net/clock.h"

namespace wattle::node {

namespace {

constexpr Span kFirstPause = Span::ms(10);
constexpr Span kLongestPause = Span::s(1);
constexpr int kResetTries = 5;

}  // namespace

/// Everything its thread touches; shared, so that a thread stuck in the driver can be left behind.
struct Actuator::Worker {
  Worker(Gpu g, std::shared_ptr<LockKeeper> k) : gpu(std::move(g)), keeper(std::move(k)) {}

  const Gpu gpu;
  const std::shared_ptr<LockKeeper> keeper;
  std::thread thread;

  mutable std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable ended;
  std::optional<MegaHertz> wanted;  ///< newest command the driver has not been called for
  Instant wanted_since;
  Instant wanted_cause;  ///< arrival of what caused it
  Span wanted_cpu;       ///< what it took to decide
  MegaHertz latest{-1};  ///< newest command ever
  bool stop = false;
  bool done = false;
  bool clean = true;  ///< nothing of ours is locked
  std::optional<Instant> call_began;
  ActuatorStats stats;

  void accept(MegaHertz clock, Instant cause, Span cpu) {
    const std::lock_guard guard(mutex);
    ++stats.commands;
    if (clock == latest) {
      ++stats.same;
      return;
    }
    latest = clock;
    if (stop || stats.state != GpuState::Controlled) return;
    if (wanted) {
      ++stats.coalesced;
    }
    wanted = clock;
    wanted_since = net::steady_now();
    wanted_cause = cause;
    wanted_cpu = cpu;
    wake.notify_one();
  }

  void run() {
    Span pause = kFirstPause;
    std::unique_lock lock(mutex);
    while (!stop) {
      if (!wanted) {
        wake.wait(lock, [this] { return stop || wanted; });
        continue;
      }
      const Span cpu_before = net::thread_cpu() - wanted_cpu;
      const MegaHertz wish = *wanted;
      const auto since = wanted_since;
      const auto cause = wanted_cause;
      const auto snapped = gpu.snap(wish);
      if (snapped.clock == stats.applied) {  // two wishes, one step of the device
        wanted.reset();
        ++stats.same;
        continue;
      }
      wanted.reset();
      if (call(lock, snapped, since, cause, cpu_before)) {
        pause = kFirstPause;
        continue;
      }
      // Put off or transient: again after a pause, with whatever is wanted by then.
      if (stats.state != GpuState::Controlled) continue;
      if (!wanted) {
        wanted = wish;
        wanted_since = since;
        wanted_cause = cause;
      }
      ++stats.retries;
      wake.wait_for(lock, std::chrono::nanoseconds(pause.ns()), [this] { return stop; });
      pause = std::min(pause * 2, kLongestPause);
    }
    unlock_gpu(lock);
    done = true;
    ended.notify_all();
  }

  /// True when the command is dealt with; false to come back to it. `cpu_before`: thread_cpu() less what was spent.
  bool call(std::unique_lock<std::mutex>& lock, Gpu::Snapped snapped, Instant since, Instant cause, Span cpu_before) {
    call_began = net::steady_now();
    lock.unlock();
    const bool provided = keeper->claim(gpu.uuid());
    const Span cpu = net::thread_cpu() - cpu_before;
    const auto begin = net::steady_now();
    const GpuStatus status = provided ? gpu.lock_clock(snapped.clock) : GpuStatus::Transient;
    const auto end = net::steady_now();
    lock.lock();
    call_began.reset();
    if (!provided) {
      ++stats.unprovided;
      return false;
    }
    clean = false;  // even a failed call may have got through
    stats.call_ns.add((end - begin).ns());
    if (snapped.clamp == Clamp::Up) ++stats.clamped_up;
    if (snapped.clamp == Clamp::Down) ++stats.clamped_down;
    if (status == GpuStatus::Ok) {
      ++stats.calls;
      stats.applied = snapped.clock;
      stats.command_to_applied_ns.add((end - since).ns());
      stats.report_to_applied_ns.add((end - cause).ns());
      stats.report_to_applied_own_ns.add((begin - cause).ns());
      if (begin - cause > kOwnTarget) ++stats.own_over_target;
      stats.report_to_applied_cpu_ns.add(cpu.ns());
      if (cpu > kOwnTarget) ++stats.cpu_over_target;
      return true;
    }
    ++stats.failures[static_cast<std::size_t>(status)];
    switch (status) {
      case GpuStatus::Absent:
      case GpuStatus::Forbidden:
        stats.state = GpuState::ReadOnly;
        spdlog::warn("{}: clocks cannot be set here ({}); it is only observed from now on", gpu.uuid(),
                     name_of(status));
        break;
      case GpuStatus::Gone:
        stats.state = GpuState::Gone;
        spdlog::error("{}: the GPU is gone; nothing more is sent to it", gpu.uuid());
        break;
      case GpuStatus::Transient:
        return false;
      case GpuStatus::Refused:
      case GpuStatus::Ok:
        spdlog::error("{}: {} MHz was refused", gpu.uuid(), snapped.clock.value());
        break;
    }
    return true;
  }

  void unlock_gpu(std::unique_lock<std::mutex>& lock) {
    if (clean) return;
    Span pause = kFirstPause;
    for (int i = 0; i < kResetTries && !clean; ++i, pause = pause * 2) {
      call_began = net::steady_now();
      lock.unlock();
      if (i > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(pause.ns()));
      const GpuStatus status = gpu.reset_clock();
      // A device that never could lock, or is gone, holds no lock of ours.
      const bool off = status == GpuStatus::Ok || status == GpuStatus::Absent || status == GpuStatus::Gone;
      if (off) keeper->forget(gpu.uuid());
      lock.lock();
      call_began.reset();
      clean = off;
      if (status == GpuStatus::Ok) {
        stats.applied = MegaHertz(0);
      } else {
        ++stats.failures[static_cast<std::size_t>(status)];
      }
    }
  }
};

Actuator::Actuator(std::vector<Target> targets, std::shared_ptr<LockKeeper> keeper) {
  for (auto& target : targets) {
    for (auto& gpu : target.gpus) {
      auto worker = std::make_shared<Worker>(std::move(gpu), keeper);
      worker->stats.uuid = worker->gpu.uuid();
      worker->stats.instance = target.instance;
      worker->thread = std::thread([worker] { worker->run(); });
      workers_.push_back(std::move(worker));
    }
  }
}

Actuator::~Actuator() { release_all(Span::s(5)); }

void Actuator::begins() { cause_cpu_ = net::thread_cpu(); }

void Actuator::command(InstanceId instance, MegaHertz clock, Instant now) {
  const Span cpu = cause_cpu_ == Span::max() ? Span() : net::thread_cpu() - cause_cpu_;
  for (const auto& worker : workers_) {
    if (worker->stats.instance == instance) worker->accept(clock, now, cpu);
  }
}

std::vector<std::string> Actuator::release_all(Span timeout) {
  std::vector<std::string> stuck;
  if (released_) return stuck;
  released_ = true;
  const Instant deadline = net::steady_now() + timeout;
  for (const auto& worker : workers_) {
    const std::lock_guard guard(worker->mutex);
    worker->stop = true;
    worker->wake.notify_all();
  }
  for (const auto& worker : workers_) {
    std::unique_lock lock(worker->mutex);
    const bool done =
        worker->ended.wait_for(lock, std::chrono::nanoseconds(std::max(Span(), deadline - net::steady_now()).ns()),
                               [&] { return worker->done; });
    if (!done || !worker->clean) stuck.push_back(worker->gpu.uuid());
    lock.unlock();
    if (done) {
      worker->thread.join();
    } else {
      worker->thread.detach();
    }
  }
  return stuck;
}

std::vector<ActuatorStats> Actuator::stats() const {
  std::vector<ActuatorStats> all;
  for (const auto& worker : workers_) {
    const std::lock_guard guard(worker->mutex);
    all.push_back(worker->stats);
    if (worker->call_began) all.back().in_call = net::steady_now() - *worker->call_began;
  }
  return all;
}

bool Actuator::responsive(Span limit) const {
  for (const auto& worker : workers_) {
    const std::lock_guard guard(worker->mutex);
    if (worker->call_began && net::steady_now() - *worker->call_began > limit) return false;
  }
  return true;
}

}  // namespace wattle::node
