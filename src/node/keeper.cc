#include "node/keeper.h"

#include <algorithm>

#include "net/log.h"
#include "node/claim.h"

namespace wattle::node {

Result<std::shared_ptr<LockKeeper>> LockKeeper::start(const KeeperOptions& options,
                                                      std::shared_ptr<const GpuLibrary> gpus) {
  if (options.advisory) return std::shared_ptr<LockKeeper>(new LockKeeper(options, std::move(gpus), {}));
  if (options.state_file.empty()) return bad_input("--state", "names a file that survives a restart of the agent");
  auto lock = lock_state(options.state_file, options.lock_patience_s);
  if (!lock) return std::unexpected(lock.error());
  std::vector<FileLock> locks;
  locks.push_back(std::move(*lock));
  const std::string folder = options.gpu_locks.empty() ? gpus->lock_folder() : options.gpu_locks;
  for (const auto& uuid : options.gpus) {
    auto mine = lock_gpu(folder, uuid, options.lock_patience_s);
    if (!mine) return std::unexpected(mine.error());
    locks.push_back(std::move(*mine));
  }
  std::shared_ptr<LockKeeper> keeper(new LockKeeper(options, std::move(gpus), std::move(locks)));
  auto recorded = keeper->state_.read();
  if (!recorded) return std::unexpected(recorded.error());
  keeper->recorded_ = std::move(*recorded);
  if (auto ok = keeper->restore(); !ok) return std::unexpected(ok.error());
  if (options.guardian) {
    auto guardian = keeper->start_guardian();
    if (!guardian) return std::unexpected(guardian.error());
    keeper->guardian_.emplace(std::move(*guardian));
  }
  return keeper;
}

/// Always writes the remaining entries: if that fails, no clock can be locked later.
Result<void> LockKeeper::restore() {
  std::set<std::string> left = recorded_;
  for (const auto& claim : recorded_) {
    const auto undone = undo(*gpus_, claim);
    if (!undone) continue;  // not here at present: the record stays
    // NVML does not report whether a lock is in force, and the clock it reports may lag. An extra reset is harmless, a
    // missing one is not.
    if (*undone != GpuStatus::Ok) continue;
    ++counts_.restored_at_start;
    left.erase(claim);
  }
  if (auto written = state_.write(left); !written) return written;
  recorded_ = std::move(left);
  return {};
}

Result<Guardian> LockKeeper::start_guardian() const {
  std::vector<int> fds;
  for (const auto& lock : locks_) fds.push_back(lock.fd());
  return Guardian::start({options_.library, options_.state_file, options_.guardian_command}, fds);
}

Result<Unlocked> unlock_recorded(const KeeperOptions& options, const GpuLibrary& gpus) {
  const auto lock =
      lock_state(options.state_file, options.lock_patience_s);  // an agent that was just killed may still hold the lock
  if (!lock) return std::unexpected(lock.error());
  const StateFile state(options.state_file);
  const auto recorded = state.read();
  if (!recorded) return std::unexpected(recorded.error());
  std::set<std::string> left = *recorded;
  Unlocked done;
  for (const auto& claim : *recorded) {
    const auto undone = undo(gpus, claim);
    const bool off = undone && *undone == GpuStatus::Ok;
    (off ? done.reset : done.failed).push_back(claim);
    if (off) left.erase(claim);
  }
  if (auto written = state.write(left); !written) return std::unexpected(written.error());
  return done;
}

bool LockKeeper::ensure_guardian() {
  if (!options_.guardian || options_.advisory) return true;
  if (guardian_ && guardian_->alive()) return true;
  auto fresh = start_guardian();
  if (!fresh) {
    net::log_line(net::LogLevel::Error, "no guardian", {{"error", fresh.error().message()}});
    return false;
  }
  ++counts_.guardian_restarts;
  guardian_.reset();
  guardian_.emplace(std::move(*fresh));
  // Before anything else, logging included: until the new guardian has these entries, nothing releases the locks if
  // this process dies.
  const bool heard = std::ranges::all_of(claimed_, [this](const auto& uuid) { return guardian_->protect(uuid); });
  net::log_line(net::LogLevel::Warning, "the guardian was gone and has been replaced");
  return heard;
}

bool LockKeeper::claim(const std::string& claim) {
  if (options_.advisory) return false;
  const std::lock_guard guard(mutex_);
  if (claimed_.contains(claim)) return true;
  if (!recorded_.contains(claim)) {
    auto wanted = recorded_;
    wanted.insert(claim);
    if (const auto written = state_.write(wanted); !written) {
      ++counts_.persist_failures;
      net::log_line(net::LogLevel::Error, "the locks could not be recorded", {{"error", written.error().message()}});
      return false;
    }
    recorded_ = std::move(wanted);
  }
  if (!ensure_guardian() || (guardian_ && !guardian_->protect(claim))) return false;
  claimed_.insert(claim);
  return true;
}

void LockKeeper::forget(const std::string& claim) {
  const std::lock_guard guard(mutex_);
  claimed_.erase(claim);
  auto wanted = recorded_;
  if (wanted.erase(claim) > 0) {
    if (const auto written = state_.write(wanted); written) {
      recorded_ = std::move(wanted);
    } else {
      ++counts_.persist_failures;  // harmless: the next start resets an unlocked GPU
      net::log_line(net::LogLevel::Error, "the locks could not be recorded", {{"error", written.error().message()}});
    }
  }
  if (guardian_ && !guardian_->release(claim)) net::log_line(net::LogLevel::Warning, "the guardian is gone");
}

void LockKeeper::check() {
  const std::lock_guard guard(mutex_);
  if (!ensure_guardian())
    net::log_line(net::LogLevel::Error, "no guardian: clocks stay locked if this agent is killed now");
}

void LockKeeper::beat() {
  const std::lock_guard guard(mutex_);
  if (guardian_) guardian_->beat();
}

LockKeeper::Counts LockKeeper::counts() const {
  const std::lock_guard guard(mutex_);
  return counts_;
}

pid_t LockKeeper::guardian_pid() const {
  const std::lock_guard guard(mutex_);
  return guardian_ ? guardian_->pid() : -1;
}

}  // namespace wattle::node
