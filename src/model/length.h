#pragma once
#include <cstdint>

#include "model/request.h"

namespace wattle {

/// Predicts output lengths.
class LengthModel {
 public:
  virtual ~LengthModel() = default;
  /// Expected total length, in tokens, of a request that has produced `produced` and has not ended; greater than
  /// `produced`, at most max_tokens. 0: no prediction. Never throws.
  [[nodiscard]] virtual std::int32_t expected_tokens(const Request& request, std::int32_t produced) const = 0;
};

}  // namespace wattle
