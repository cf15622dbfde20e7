#pragma once
#include <cstdint>

#include "model/request.h"

namespace wattle {

/// What is believed about how long an answer becomes.
class LengthModel {
 public:
  virtual ~LengthModel() = default;
  /// Expected length, tokens in all, of a request that has produced `produced` of them and goes on; greater than
  /// `produced`, at most max_tokens. 0: no belief. Total: never throws.
  [[nodiscard]] virtual std::int32_t expected_tokens(const Request& request, std::int32_t produced) const = 0;
};

}  // namespace wattle
