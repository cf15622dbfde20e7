#include "live/agent/meter.h"

#include <algorithm>

namespace wattle::live {

namespace {

constexpr std::uint64_t kWrap = std::uint64_t{1} << 32U;
/// A 32-bit counter that overflowed lies this close below 2^32: 1 MJ, more than a GPU draws between two samples.
constexpr std::uint64_t kNearWrap = 1'000'000'000;

Picojoules drawn(Milliwatts power, Span d) { return Picojoules(Int128{power.value()} * d.ns()); }
Picojoules from_millijoules(std::uint64_t mj) { return Picojoules(Int128{mj} * 1'000'000'000); }

}  // namespace

Picojoules EnergyMeter::jump(std::uint64_t from, std::uint64_t to) {
  if (to >= from) return from_millijoules(to - from);
  if (from < kWrap && from >= kWrap - kNearWrap && to < kNearWrap) {
    ++wraps_;
    return from_millijoules(kWrap - from + to);
  }
  ++resets_;
  return since_;  // what was drawn meanwhile is only known from power
}

void EnergyMeter::sample(std::optional<std::uint64_t> counter_mj, Milliwatts power, Instant now) {
  if (!started_) {
    started_ = true;
    last_ = now;
    power_ = power;
    counter_ = counter_mj;
    return;
  }
  const Span elapsed = std::max(Span(), now - last_);
  // Half of the time between two samples belongs to each: a change lies anywhere in it.
  const Span half = elapsed / 2;
  since_ += drawn(power_, half) + drawn(power, elapsed - half);
  if (counter_mj && counter_ && *counter_mj != *counter_) {
    // The jump happened since the last sample; halfway is off by half a period at most.
    const Picojoules after_jump = drawn(power, elapsed - half);
    if (anchored_) {
      settled_ += jump(*counter_, *counter_mj);
    } else {
      settled_ += since_ - after_jump;  // where in its period the counter was at the start is unknown
      anchored_ = true;
    }
    since_ = after_jump;
  }
  if (counter_mj) counter_ = counter_mj;
  last_ = now;
  power_ = power;
  reported_ = std::max(reported_, settled_ + since_);
}

}  // namespace wattle::live
