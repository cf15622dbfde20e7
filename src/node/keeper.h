#pragma once
// The lock keeper: no clock is locked unless its release is provided for, in this life and in the next.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "node/gpu/nvml.h"
#include "node/guardian.h"
#include "node/priority_mutex.h"
#include "node/state_file.h"

namespace wattle::node {

struct KeeperOptions {
  std::string library = Nvml::kLibrary;  ///< as open_gpus() takes it
  std::string state_file;                ///< in a directory that survives a restart of the agent
  bool guardian = true;                  ///< false only where something else resets clocks when the agent dies
  std::vector<std::string> guardian_command = GuardianOptions{}.command;
  int lock_patience_s = 10;            ///< how long to wait for a predecessor's guardian
  std::vector<std::string> gpus = {};  ///< UUIDs that nobody else on this machine may have meanwhile
  std::string gpu_locks = {};          ///< folder where that is said; empty: GpuLibrary::lock_folder()
  bool advisory = false;               ///< nothing is ever locked: no state, no guardian, claim() says no
};

/// Thread-safe.
class LockKeeper {
 public:
  struct Counts {
    std::int64_t restored_at_start = 0;
    std::int64_t persist_failures = 0;
    std::int64_t guardian_restarts = 0;
  };

  /// Takes the locks, starts the guardian, and undoes what a dead predecessor left: only GPUs that the state file
  /// names, working or not. Errors: an unreadable state file, a guardian that does not start, another agent.
  [[nodiscard]] static Result<std::shared_ptr<LockKeeper>> start(const KeeperOptions& options,
                                                                 std::shared_ptr<const GpuLibrary> gpus);

  /// Before the first lock of a GPU (cheap afterwards). False: not provided for, do not lock, ask again later.
  /// `claim`: a UUID, or claim_of_power() (claim.h).
  [[nodiscard]] bool claim(const std::string& claim);
  /// After its reset has succeeded.
  void forget(const std::string& claim);
  /// Restarts a guardian that has died. Call every second or so.
  void check();
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] pid_t guardian_pid() const;

 private:
  LockKeeper(KeeperOptions options, std::shared_ptr<const GpuLibrary> gpus, std::vector<FileLock> locks)
      : options_(std::move(options)), gpus_(std::move(gpus)), locks_(std::move(locks)), state_(options_.state_file) {}
  [[nodiscard]] Result<void> restore();
  [[nodiscard]] Result<Guardian> start_guardian() const;
  [[nodiscard]] bool ensure_guardian();

  KeeperOptions options_;
  std::shared_ptr<const GpuLibrary> gpus_;  ///< alive as long as anyone can still call into a GPU
  std::vector<FileLock> locks_;             ///< of the state file, then of each GPU
  StateFile state_;
  mutable PriorityMutex mutex_;
  std::optional<Guardian> guardian_;
  std::set<std::string> recorded_;  ///< what the state file holds
  std::set<std::string> claimed_;   ///< by this process
  Counts counts_;
};

struct Unlocked {
  std::vector<std::string> reset;
  std::vector<std::string> failed;  ///< recorded, and did not let go
};
/// Takes off every clock lock that the state file records, for an operator: no agent may be running with it (it
/// waits `lock_patience_s` for one that is ending). Errors: one is; an unreadable or unwritable state file.
[[nodiscard]] Result<Unlocked> unlock_recorded(const KeeperOptions& options, const GpuLibrary& gpus);

}  // namespace wattle::node
