#pragma once
// The lock keeper: no clock is locked unless its release is guaranteed, by this process or the next.
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
  bool guardian = true;                  ///< false only if something else resets clocks when the agent dies
  std::vector<std::string> guardian_command = GuardianOptions{}.command;
  int lock_patience_s = 10;            ///< how long to wait for a predecessor's guardian
  std::vector<std::string> gpus = {};  ///< UUIDs that no other agent on this machine may use meanwhile
  std::string gpu_locks = {};          ///< folder of the locks for these; empty: GpuLibrary::lock_folder()
  bool advisory = false;               ///< nothing is ever locked: no state file, no guardian, claim() returns false
};

/// Thread-safe.
class LockKeeper {
 public:
  struct Counts {
    std::int64_t restored_at_start = 0;
    std::int64_t persist_failures = 0;
    std::int64_t guardian_restarts = 0;
  };

  /// Takes the file locks, starts the guardian, and undoes what a dead predecessor left: only on GPUs in the state
  /// file, busy or not. Errors: an unreadable state file, a guardian that does not start, another agent.
  [[nodiscard]] static Result<std::shared_ptr<LockKeeper>> start(const KeeperOptions& options,
                                                                 std::shared_ptr<const GpuLibrary> gpus);

  /// Call before a GPU's first lock (cheap afterwards). False: release is not guaranteed; do not lock, ask again later.
  /// `claim`: a UUID, or claim_of_power() (claim.h).
  [[nodiscard]] bool claim(const std::string& claim);
  /// Call after its reset has succeeded.
  void forget(const std::string& claim);
  /// Restarts a guardian that has died. Call about every second.
  void check();
  /// Somebody decides clocks. Once called, call it about every second, or the guardian lets the GPUs go.
  void beat();
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] pid_t guardian_pid() const;

 private:
  LockKeeper(KeeperOptions options, std::shared_ptr<const GpuLibrary> gpus, std::vector<FileLock> locks)
      : options_(std::move(options)), gpus_(std::move(gpus)), locks_(std::move(locks)), state_(options_.state_file) {}
  [[nodiscard]] Result<void> restore();
  [[nodiscard]] Result<Guardian> start_guardian() const;
  [[nodiscard]] bool ensure_guardian();

  KeeperOptions options_;
  std::shared_ptr<const GpuLibrary> gpus_;  ///< kept alive while any thread may call into a GPU
  std::vector<FileLock> locks_;             ///< of the state file, then of each GPU
  StateFile state_;
  mutable PriorityMutex mutex_;
  std::optional<Guardian> guardian_;
  std::set<std::string> recorded_;  ///< content of the state file
  std::set<std::string> claimed_;   ///< by this process
  Counts counts_;
};

struct Unlocked {
  std::vector<std::string> reset;
  std::vector<std::string> failed;  ///< recorded, but not released
};
/// Releases every clock lock in the state file, for an operator. No agent may be running with it (waits
/// `lock_patience_s` for one that is ending). Errors: one is running; an unreadable or unwritable state file.
[[nodiscard]] Result<Unlocked> unlock_recorded(const KeeperOptions& options, const GpuLibrary& gpus);

}  // namespace wattle::node
