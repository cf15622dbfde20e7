#pragma once
// Who may send requests: API keys, stored by digest, and their tenants' terms.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "net/secret.h"
#include "units/time.h"

namespace wattle::gateway {

/// Headers with a request's key: the bearer token, otherwise the first of these that is present.
inline constexpr const char* kBearerHeader = "Authorization";
inline constexpr const char* kKeyHeaders[] = {"x-api-key", "api-key"};

/// A tenant's limits and permissions.
struct TenantTerms {
  std::string tenant;
  std::optional<double> requests_per_minute;
  std::optional<double> tokens_per_minute;  ///< of prompts and answers; finally as counted by the engine
  std::optional<int> concurrent;            ///< requests held or at an engine
  std::int32_t most_priority = 0;           ///< higher ones are clamped to it
  std::optional<Span> tightest_ttft;        ///< tiers with a stricter objective are refused
  bool hints = true;                        ///< its statements about prompt and output lengths are believed
};

/// A keys file: {"tenants": {NAME: {"requests_per_minute", "tokens_per_minute", "concurrent", "most_priority",
/// "tightest_ttft_ms", "hints"}}, "keys": [{"sha256", "tenant", "note"}]}, no other keys.
class KeyTable {
 public:
  static Result<KeyTable> read(std::string_view text, std::string_view where);
  KeyTable(KeyTable&&) = default;  // not to be copied: keys point to tenants
  KeyTable& operator=(KeyTable&&) = default;
  ~KeyTable() = default;

  /// The key's tenant; null: unknown key. The time that this takes does not depend on how much of a wrong key is right.
  [[nodiscard]] const TenantTerms* find(std::string_view key) const;
  [[nodiscard]] std::size_t size() const { return keys_.size(); }

 private:
  KeyTable() = default;
  struct Key {
    net::Digest digest;
    const TenantTerms* terms;
  };
  std::map<std::string, TenantTerms> tenants_;        ///< nodes: keys point to them
  std::unordered_multimap<std::uint64_t, Key> keys_;  ///< by the digest's first bytes
};

/// The keys file, read again when it changes, so that a key can be revoked without a restart. Thread-safe.
class KeyRing {
 public:
  static Result<std::unique_ptr<KeyRing>> open(std::string path);
  [[nodiscard]] std::shared_ptr<const KeyTable> table() const {
    const std::lock_guard lock(mutex_);
    return table_;
  }
  /// Increases when the table changes; reading it takes no lock.
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Checks whether the file has changed. An invalid file leaves the keys unchanged; its error is returned once.
  std::optional<Error> look();

 private:
  KeyRing() = default;
  std::string path_;
  std::string seen_;  ///< its text when last read
  bool unreadable_ = false;
  mutable std::mutex mutex_;
  std::shared_ptr<const KeyTable> table_;
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace wattle::gateway
