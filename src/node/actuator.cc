#include "node/actuator.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "net/clock.h"
#include "net/log.h"
#include "node/claim.h"
#include "node/power_cap.h"
#include "node/priority_mutex.h"
#include "node/realtime.h"

namespace wattle::node {

namespace {

constexpr Span kFirstPause = Span::ms(10);
constexpr Span kLongestPause = Span::s(1);
constexpr int kResetTries = 5;
constexpr Span kTakesEffect = Span::ms(1000);  ///< until a lock shows in the GPU's clock
constexpr Span kMismatched = Span::ms(500);    ///< a clock that differs for longer than this is a mismatch
constexpr std::int32_t kTolerance_mhz = 30;    ///< two steps of a device
constexpr Span kWriterWindow = Span::s(60);
constexpr std::size_t kWriterMismatches = 3;  ///< in the window: not a driver's hiccup

}  // namespace

/// Everything its thread touches; shared, so that a thread stuck in the driver can be left behind.
struct Actuator::Worker {
  Worker(Gpu g, std::shared_ptr<LockKeeper> k, bool caps) : gpu(std::move(g)), keeper(std::move(k)), power_caps(caps) {
    if (!gpu.partitioned()) return;
    stats.state = GpuState::ReadOnly;
    net::log_line(net::LogLevel::Warning,
                  "the GPU is partitioned (MIG): a clock would be every partition's; it is only observed",
                  {{"gpu", gpu.uuid()}});
  }

  const Gpu gpu;
  const std::shared_ptr<LockKeeper> keeper;
  const bool power_caps;
  std::thread thread;

  mutable PriorityMutex mutex;
  PriorityCondition wake;
  PriorityCondition ended;
  std::optional<MegaHertz> wanted;  ///< newest command the driver has not been called for
  Instant wanted_since;
  Instant wanted_cause;  ///< arrival of the report that caused it
  Span wanted_cpu;       ///< CPU time of the decision
  MegaHertz latest{-1};  ///< newest command ever
  bool stop = false;
  bool done = false;
  bool clean = true;  ///< no lock of ours is in force
  std::optional<Instant> call_began;
  Instant applied_at;
  Instant other_since = Instant::never();  ///< that it runs at another clock
  std::deque<Instant> mismatched;          ///< within the window
  bool again = false;                      ///< call the driver even for the clock that is applied
  /// Its power is limited instead. Its thread's own.
  struct Capped {
    Milliwatts least;
    Milliwatts before;  ///< the power limit before ours
    MegaHertz highest;
    std::string claim;
  };
  std::optional<Capped> capped;
  ActuatorStats stats;

  void saw(MegaHertz clock, const std::function<bool()>& limited, Instant now) {
    std::unique_lock lock(mutex);
    const MegaHertz applied = stats.applied;
    while (!mismatched.empty() && now - mismatched.front() > kWriterWindow) mismatched.pop_front();
    stats.second_writer = mismatched.size() >= kWriterMismatches;
    const std::int32_t off = clock.value() - applied.value();
    const bool ours = applied.value() > 0 && !wanted && !call_began && !stop && now - applied_at >= kTakesEffect;
    if (!ours || std::abs(off) <= kTolerance_mhz) {
      other_since = Instant::never();
      return;
    }
    if (off < 0) {
      lock.unlock();
      if (limited()) return;  // idle, or capped: not a matter of locks
      lock.lock();
      if (stats.applied != applied) return;
    }
    other_since = std::min(other_since, now);
    if (now - other_since < kMismatched) return;
    other_since = Instant::never();
    ++stats.mismatches;
    mismatched.push_back(now);
    if (!stats.second_writer && mismatched.size() >= kWriterMismatches) {
      stats.second_writer = true;
      net::log_line(net::LogLevel::Error, "another process sets the GPU's clock",
                    {{"gpu", gpu.uuid()},
                     {"locked_mhz", applied.value()},
                     {"ran_mhz", clock.value()},
                     {"times_in_a_minute", static_cast<std::int64_t>(mismatched.size())}});
    }
    again = true;
    wanted = applied;
    wanted_since = wanted_cause = now;
    wanted_cpu = Span();
    wake.notify_one();
  }

  void renew(Instant now) {
    const std::lock_guard guard(mutex);
    if (stop || stats.state != GpuState::Controlled || !holds()) return;
    again = true;
    if (!wanted) {
      wanted = latest;
      wanted_since = wanted_cause = now;
      wanted_cpu = Span();
    }
    wake.notify_one();
  }

  void accept(MegaHertz clock, Instant cause, Span cpu) {
    std::unique_lock guard(mutex);
    ++stats.commands;
    if (clock == latest) {
      ++stats.same;
      return;
    }
    latest = clock;
    if (stop || stats.state == GpuState::ReadOnly) return;
    if (wanted) {
      ++stats.coalesced;
    }
    wanted = clock;
    wanted_since = net::steady_now();
    wanted_cause = cause;
    wanted_cpu = cpu;
    guard.unlock();  // it may run at once
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
      const bool stands = capped ? cap(snapped.clock) == stats.power_cap : snapped.clock == stats.applied;
      if (stands && !again) {  // two wishes, one step of the device
        wanted.reset();
        ++stats.same;
        continue;
      }
      again = false;
      wanted.reset();
      if (call(lock, snapped, since, cause, cpu_before)) {
        pause = kFirstPause;
        continue;
      }
      // Deferred, failed for the moment or gone: retried after a pause, with the clock wanted by then.
      if (stats.state == GpuState::ReadOnly) continue;
      if (!wanted) {
        wanted = wish;
        wanted_since = since;
        wanted_cause = cause;
      }
      again = true;  // the failed call may have got through, and a lost device may have lost its lock
      ++stats.retries;
      wake.wait_for(lock, pause, [this] { return stop; });
      pause = std::min(pause * 2, kLongestPause);
    }
    unlock_gpu(lock);
    done = true;
    ended.notify_all();
  }

  /// True if the command is done; false: retry later. `cpu_before`: thread_cpu() at the start of the way from report to
  /// driver call.
  bool call(std::unique_lock<PriorityMutex>& lock, Gpu::Snapped snapped, Instant since, Instant cause,
            Span cpu_before) {
    call_began = net::steady_now();
    lock.unlock();
    const bool provided = keeper->claim(capped ? capped->claim : gpu.uuid());
    const Span cpu = net::thread_cpu() - cpu_before;
    const auto begin = net::steady_now();
    const GpuStatus status = provided ? set(snapped.clock) : GpuStatus::Transient;
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
      if (capped) {
        stats.power_cap = cap(snapped.clock);
      } else {
        stats.applied = snapped.clock;
        applied_at = end;
      }
      if (std::exchange(stats.state, GpuState::Controlled) == GpuState::Gone) {
        net::log_line(net::LogLevel::Info, "the GPU is back", {{"gpu", gpu.uuid()}});
      }
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
        if (holds()) {
          unlock_gpu(lock);
        } else {
          clean = true;
          keeper->forget(capped ? capped->claim : gpu.uuid());
        }
        if (!capped && power_caps && clean && ready_to_cap()) return false;  // again, that way
        stats.state = GpuState::ReadOnly;
        wanted.reset();
        net::log_line(net::LogLevel::Warning, "the GPU's clocks cannot be set here; it is only observed from now on",
                      {{"gpu", gpu.uuid()}, {"why", name_of(status)}, {"locked_mhz", stats.applied.value()}});
        break;
      case GpuStatus::Gone:
        if (std::exchange(stats.state, GpuState::Gone) != GpuState::Gone) {
          net::log_line(net::LogLevel::Error, "the GPU is gone; its clock is set again once it is back",
                        {{"gpu", gpu.uuid()}});
        }
        return false;
      case GpuStatus::Transient:
        return false;
      case GpuStatus::Refused:
      case GpuStatus::Ok:
        if (holds()) unlock_gpu(lock);
        net::log_line(
            net::LogLevel::Error, "a clock was refused",
            {{"gpu", gpu.uuid()}, {"clock_mhz", snapped.clock.value()}, {"locked_mhz", stats.applied.value()}});
        break;
    }
    return true;
  }

  /// A lock that cannot be changed is released, because it could be too low for as long as the agent runs.
  [[nodiscard]] bool holds() const { return stats.applied.value() > 0 || stats.power_cap.value() > 0; }

  [[nodiscard]] Milliwatts cap(MegaHertz clock) const {
    const MegaHertz lowest = gpu.clocks().empty() ? MegaHertz(0) : gpu.clocks().front();
    return power_cap(clock, lowest, capped->highest, capped->least, capped->before);
  }
  [[nodiscard]] GpuStatus set(MegaHertz clock) const {
    return capped ? gpu.set_power_limit(cap(clock)) : gpu.lock_clock(clock);
  }
  /// Switches to power limits if the device states their range.
  bool ready_to_cap() {
    const auto least = gpu.least_power_limit();
    const auto before = gpu.power_limit();
    const auto highest = gpu.max_sm_clock();
    if (!least.ok() || !before.ok() || !highest.ok()) return false;
    capped = Capped{least.value, before.value, highest.value, claim_of_power(gpu.uuid(), before.value)};
    net::log_line(net::LogLevel::Warning, "the GPU's clocks cannot be set here; its power is limited instead",
                  {{"gpu", gpu.uuid()}, {"least_mw", least.value.value()}, {"most_mw", before.value.value()}});
    return true;
  }

  void unlock_gpu(std::unique_lock<PriorityMutex>& lock) {
    if (clean) return;
    const bool held = holds();
    Span pause = kFirstPause;
    for (int i = 0; i < kResetTries && !clean; ++i, pause = pause * 2) {
      call_began = net::steady_now();
      lock.unlock();
      if (i > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(pause.ns()));
      const GpuStatus status = capped ? gpu.set_power_limit(capped->before) : gpu.reset_clock();
      // A device that never took a lock has none of ours; one that is gone may come back with it.
      const bool never = status == GpuStatus::Absent && !held;
      const bool off = status == GpuStatus::Ok || never;
      if (off) keeper->forget(gpu.uuid());
      if (off && capped) keeper->forget(capped->claim);
      lock.lock();
      call_began.reset();
      clean = off;
      if (status == GpuStatus::Ok) {
        stats.applied = MegaHertz(0);
        stats.power_cap = Milliwatts();
      } else {
        ++stats.failures[static_cast<std::size_t>(status)];
      }
    }
  }
};

Actuator::Actuator(std::vector<Target> targets, std::shared_ptr<LockKeeper> keeper, bool power_caps, bool real_time) {
  for (auto& target : targets) {
    for (auto& gpu : target.gpus) {
      auto worker = std::make_shared<Worker>(std::move(gpu), keeper, power_caps);
      worker->stats.uuid = worker->gpu.uuid();
      worker->stats.instance = target.instance;
      worker->thread = std::thread([worker, real_time] {
        // Before the thread that decides: a clock need not wait until all that has been reported is decided.
        if (real_time) run_in_real_time(1);
        worker->run();
      });
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

void Actuator::renew() {
  for (const auto& worker : workers_) worker->renew(net::steady_now());
}

void Actuator::saw(std::size_t gpu, MegaHertz clock, const std::function<bool()>& limited, Instant now) {
  if (gpu < workers_.size()) workers_[gpu]->saw(clock, limited, now);
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
        worker->ended.wait_for(lock, std::max(Span(), deadline - net::steady_now()), [&] { return worker->done; });
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
