#pragma once
// Who may send requests: API keys, by digest, and what holds for the tenants they belong to.
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

/// Where a request carries its key: as a bearer token, else in the first of these that is there.
inline constexpr const char* kBearerHeader = "Authorization";
inline constexpr const char* kKeyHeaders[] = {"x-api-key", "api-key"};

/// What a tenant may do.
struct TenantTerms {
  std::string tenant;
  std::optional<double> requests_per_minute;
  std::optional<double> tokens_per_minute;  ///< of prompts and answers, in the end as the engine counted them
  std::optional<int> concurrent;            ///< requests held or at an engine
  std::int32_t most_priority = 0;           ///< higher ones are clamped to it
  std::optional<Span> tightest_ttft;        ///< tiers with a stricter objective are not for it
  bool hints = true;                        ///< what it says of prompt and output lengths is believed
};

/// A keys file: {"tenants": {NAME: {"requests_per_minute", "tokens_per_minute", "concurrent", "most_priority",
/// "tightest_ttft_ms", "hints"}}, "keys": [{"sha256", "tenant", "note"}]}, no other keys.
class KeyTable {
 public:
  static Result<KeyTable> read(std::string_view text, std::string_view where);
  KeyTable(KeyTable&&) = default;  // not to be copied: keys point to tenants
  KeyTable& operator=(KeyTable&&) = default;
  ~KeyTable() = default;

  /// Whose key it is; null: nobody's. How long that takes says nothing of how near a wrong key is to a right one.
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

/// The keys file as it is now: read again when it has changed, so that a key can be taken away without a restart.
/// Thread-safe.
class KeyRing {
 public:
  static Result<std::unique_ptr<KeyRing>> open(std::string path);
  [[nodiscard]] std::shared_ptr<const KeyTable> table() const {
    const std::lock_guard lock(mutex_);
    return table_;
  }
  /// Another one since the table has changed: a look at it costs nobody a lock.
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Looks whether the file has changed. One that is wrong leaves the keys as they were: what is wrong, once.
  std::optional<Error> look();

 private:
  KeyRing() = default;
  std::string path_;
  std::string seen_;  ///< its text, when it was last read
  bool unreadable_ = false;
  mutable std::mutex mutex_;
  std::shared_ptr<const KeyTable> table_;
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace wattle::gateway
