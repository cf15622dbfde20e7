#include "sim/lives.h"

#include <algorithm>

namespace wattle::sim {

void Lives::end(std::size_t i, Instant now) {
  Life& life = lives_[i];
  life.mhz_seconds += life.clock.value() * (now - life.clock_since).seconds();
  life.clock_since = now;
  life.gone = now;
}

Span Lives::lived(std::size_t i, Instant end) const { return std::min(lives_[i].gone, end) - lives_[i].begun; }

void Lives::add_mhz_seconds(std::size_t i, Instant end, double& sum) const {
  const Life& life = lives_[i];
  sum += life.mhz_seconds;
  if (!gone(i)) sum += life.clock.value() * (end - life.clock_since).seconds();
}

}  // namespace wattle::sim
