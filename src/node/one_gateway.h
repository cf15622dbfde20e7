#pragma once
// An engine obeys one gateway: two that command it each decide without the other's requests in view, and their clocks
// would take turns. While two do, neither is obeyed.
#include <string>
#include <string_view>
#include <utility>

#include "units/time.h"

namespace wattle::node {

class OneGateway {
 public:
  /// A command of this gateway's that holds for `lease`. False: another one's holds, too, and it is not to be obeyed.
  bool obeys(std::string_view gateway, Span lease, Instant now) {
    if (gateway != holder_ && now < held_until_) {
      rival_ = gateway;
      contested_until_ = now + lease;
      return false;
    }
    if (gateway != std::exchange(holder_, gateway)) contested_until_ = Instant();
    held_until_ = now + lease;
    return !contested(now);
  }
  [[nodiscard]] bool contested(Instant now) const { return now < contested_until_; }
  /// While contested: the other one, as this gateway sees it.
  [[nodiscard]] const std::string& other_than(std::string_view gateway) const {
    return gateway == holder_ ? rival_ : holder_;
  }

 private:
  std::string holder_, rival_;
  Instant held_until_, contested_until_;
};

}  // namespace wattle::node
