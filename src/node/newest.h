#pragma once
// The newest items of a process, numbered, for callers that poll. Thread-safe.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

namespace wattle::node {

template <typename T>
class Newest {
 public:
  explicit Newest(std::size_t capacity = 4096) : ring_(capacity) {}

  void add(const T& item) {
    const std::lock_guard lock(mutex_);
    ring_[static_cast<std::size_t>(next_) % ring_.size()] = item;
    ++next_;
  }
  struct Batch {
    std::vector<T> items;   ///< the last of them has number `next - 1`
    std::int64_t next = 0;  ///< the number to ask for next
  };
  /// Items from number `from` on, as far as they are still stored; all stored ones if `from` is in the future (the
  /// caller last asked another process).
  [[nodiscard]] Batch since(std::int64_t from) const {
    const std::lock_guard lock(mutex_);
    const auto size = static_cast<std::int64_t>(ring_.size());
    std::int64_t i = std::max<std::int64_t>(from < 0 || from > next_ ? 0 : from, next_ - size);
    Batch batch;
    for (; i < next_; ++i) batch.items.push_back(ring_[static_cast<std::size_t>(i % size)]);
    batch.next = next_;
    return batch;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<T> ring_;
  std::int64_t next_ = 0;
};

}  // namespace wattle::node
