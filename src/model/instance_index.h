#pragma once
// Where what is kept of each instance lies, in containers that are as long as the fleet is large: ids count up and
// never come back, positions are dense, and those behind one that is removed move up.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/check.h"
#include "units/quantity.h"

namespace wattle {

class InstanceIndex {
 public:
  /// The position behind the last. The id must be higher than any that ever was.
  std::size_t add(InstanceId id) {
    WATTLE_CHECK(id > newest_, "ids of instances count up and never come back");
    newest_ = id;
    ids_.push_back(id);
    return ids_.size() - 1;
  }
  /// Its position until now: what is kept there goes, by the caller.
  std::size_t remove(InstanceId id) {
    const std::size_t i = at(id);
    ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(i));
    return i;
  }

  /// None: it is gone, or never was.
  [[nodiscard]] std::optional<std::size_t> find(InstanceId id) const {
    const std::size_t i = position(id);
    return i < ids_.size() ? std::optional(i) : std::nullopt;
  }
  /// Of one that is there.
  [[nodiscard]] std::size_t at(InstanceId id) const {
    const std::size_t i = position(id);
    WATTLE_CHECK(i < ids_.size(), "an instance that is there");
    return i;
  }
  [[nodiscard]] InstanceId operator[](std::size_t i) const { return ids_[i]; }
  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  /// The highest that ever was; below 0: none.
  [[nodiscard]] InstanceId newest() const { return newest_; }

 private:
  /// Behind the last: it is not there.
  [[nodiscard]] std::size_t position(InstanceId id) const {
    const auto dense = static_cast<std::size_t>(id.value());  // as it is while nobody has left
    return dense < ids_.size() && ids_[dense] == id ? dense : search(id);
  }
  [[nodiscard]] [[gnu::noinline]] std::size_t search(InstanceId id) const {
    const auto found = std::ranges::lower_bound(ids_, id);
    return found != ids_.end() && *found == id ? static_cast<std::size_t>(found - ids_.begin()) : ids_.size();
  }

  std::vector<InstanceId> ids_;  ///< ascending
  InstanceId newest_{-1};
};

/// Takes out what is kept at a position.
template <typename T>
void erase_at(std::vector<T>& kept, std::size_t i) {
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
}

}  // namespace wattle
