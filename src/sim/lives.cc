#include "sim/lives.h"

#include <algorithm>

#include "model/instance_index.h"

namespace wattle::sim {

void Lives::end(std::size_t i, Instant now) {
  Life& life = lives_[i];
  life.mhz_seconds += life.clock.value() * (now - life.clock_since).seconds();
  life.clock_since = now;
  life.gone = now;
}

void Lives::add(const Life& life, Instant end, Sum& sum) {
  sum.seconds += (std::min(life.gone, end) - life.begun).seconds();
  sum.mhz_seconds += life.mhz_seconds;
  if (life.gone == Instant::never()) sum.mhz_seconds += life.clock.value() * (end - life.clock_since).seconds();
}

void Lives::remove(std::size_t i) {
  add(lives_[i], lives_[i].gone, gone_);
  erase_at(lives_, i);
}

Lives::Sum Lives::sum(Instant end) const {
  Sum all = gone_;
  for (const Life& life : lives_) add(life, end, all);
  return all;
}

}  // namespace wattle::sim
