#pragma once
// Where what is kept of each instance lies, in containers that are as long as the fleet is large: ids count up and
// never come back, positions are dense, and those behind one that is removed move up.
#include <cstddef>
#include <cstdint>
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
    positions_.resize(static_cast<std::size_t>(id.value()), kGone);
    positions_.push_back(static_cast<std::int32_t>(ids_.size()));
    ids_.push_back(id);
    return ids_.size() - 1;
  }
  /// Its position until now: what is kept there goes, by the caller.
  std::size_t remove(InstanceId id) {
    const std::size_t i = at(id);
    ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(i));
    positions_[static_cast<std::size_t>(id.value())] = kGone;
    for (std::size_t behind = i; behind < ids_.size(); ++behind) {
      --positions_[static_cast<std::size_t>(ids_[behind].value())];
    }
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
  static constexpr std::int32_t kGone = -1;

  /// Behind the last: it is not there.
  [[nodiscard]] std::size_t position(InstanceId id) const {
    const auto i = static_cast<std::size_t>(id.value());  // of kNoInstance: behind all
    return i < positions_.size() && positions_[i] != kGone ? static_cast<std::size_t>(positions_[i]) : ids_.size();
  }

  std::vector<InstanceId> ids_;          ///< ascending
  std::vector<std::int32_t> positions_;  ///< by id, of all that ever were: four bytes for each that went
  InstanceId newest_{-1};
};

/// Takes out what is kept at a position.
template <typename T>
void erase_at(std::vector<T>& kept, std::size_t i) {
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
}

}  // namespace wattle
