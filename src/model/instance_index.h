#pragma once
// Maps instance ids to dense positions in containers with one entry per present instance. Ids increase and are never
// reused; when an instance is removed, later positions move up by one.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "units/quantity.h"

namespace wattle {

class InstanceIndex {
 public:
  /// Adds an instance at the end and returns its position. The id must be higher than any before.
  std::size_t add(InstanceId id) {
    WATTLE_CHECK(id > newest_, "ids of instances count up and never come back");
    newest_ = id;
    positions_.resize(static_cast<std::size_t>(id.value()), kGone);
    positions_.push_back(static_cast<std::int32_t>(ids_.size()));
    ids_.push_back(id);
    return ids_.size() - 1;
  }
  /// Removes an instance and returns its former position; the caller erases its entry there.
  std::size_t remove(InstanceId id) {
    const std::size_t i = at(id);
    ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(i));
    positions_[static_cast<std::size_t>(id.value())] = kGone;
    for (std::size_t behind = i; behind < ids_.size(); ++behind) {
      --positions_[static_cast<std::size_t>(ids_[behind].value())];
    }
    return i;
  }

  /// None: unknown, or already removed.
  [[nodiscard]] std::optional<std::size_t> find(InstanceId id) const {
    const std::size_t i = position(id);
    return i < ids_.size() ? std::optional(i) : std::nullopt;
  }
  /// Position of a present instance.
  [[nodiscard]] std::size_t at(InstanceId id) const {
    const std::size_t i = position(id);
    WATTLE_CHECK(i < ids_.size(), "an instance that is there");
    return i;
  }
  [[nodiscard]] InstanceId operator[](std::size_t i) const { return ids_[i]; }
  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  /// Highest id so far; below 0: none.
  [[nodiscard]] InstanceId newest() const { return newest_; }

 private:
  static constexpr std::int32_t kGone = -1;

  /// size() if it is not present.
  [[nodiscard]] std::size_t position(InstanceId id) const {
    const auto i = static_cast<std::size_t>(id.value());  // kNoInstance becomes larger than any
    return i < positions_.size() && positions_[i] != kGone ? static_cast<std::size_t>(positions_[i]) : ids_.size();
  }

  std::vector<InstanceId> ids_;          ///< ascending
  std::vector<std::int32_t> positions_;  ///< by id, including removed ones (four bytes each)
  InstanceId newest_{-1};
};

/// Erases the entry at a position.
template <typename T>
void erase_at(std::vector<T>& kept, std::size_t i) {
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
}

}  // namespace wattle
