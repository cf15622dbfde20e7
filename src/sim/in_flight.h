#pragma once
// Requests on their way, in a slab whose indices are the engines' tags.
#include <cstdint>
#include <vector>

#include "carbon/ledger.h"
#include "control/ports.h"
#include "engine/replica.h"

namespace wattle::sim {

struct InFlightRequest {
  Request request;
  control::Served served;
  InstanceId prefill = kNoInstance;
  InstanceId decode = kNoInstance;  ///< same as prefill when colocated
  carbon::Account account;
  std::int32_t true_output_tokens = 0;
  std::uint32_t life =
      0;  ///< counts reuses of the slab place and losses, so that a late transfer finds its own request or none
  bool alive = false;
  std::int32_t produced = 0;  ///< tokens before it was last displaced
  Instant last_token;         ///< of those
  bool displaced = false;     ///< its engine is to give it up, and has not
  bool bounced = false;       ///< its instance died before its first token, and it was started again
};

class InFlightRequests {
 public:
  /// A fresh place; references to others may dangle.
  engine::Tag open(RequestId id) {
    engine::Tag tag = 0;
    if (free_.empty()) {
      places_.emplace_back();
      tag = static_cast<engine::Tag>(places_.size() - 1);
    } else {
      tag = free_.back();
      free_.pop_back();
      const std::uint32_t life = places_[tag].life;
      places_[tag] = InFlightRequest{};
      places_[tag].life = life + 1;
    }
    places_[tag].request.id = id;
    places_[tag].alive = true;
    return tag;
  }
  /// Its place may be reused from now on; until then it can still be read.
  void close(engine::Tag tag) {
    places_[tag].alive = false;
    free_.push_back(tag);
  }

  [[nodiscard]] InFlightRequest& operator[](engine::Tag tag) { return places_[tag]; }
  [[nodiscard]] std::int64_t in_use() const { return static_cast<std::int64_t>(places_.size() - free_.size()); }
  /// Those in use and those that are free, which are not alive.
  [[nodiscard]] const std::vector<InFlightRequest>& places() const { return places_; }

 private:
  std::vector<InFlightRequest> places_;
  std::vector<engine::Tag> free_;
};

}  // namespace wattle::sim
