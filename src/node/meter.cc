#include "node/meter.h"

#include <algorithm>

namespace wattle::node {

namespace {

constexpr std::uint64_t kWrap = std::uint64_t{1} << 32U;
/// A 32-bit counter overflowed if it was this close to 2^32 before: 1 MJ, more than a GPU draws between two samples.
constexpr std::uint64_t kNearWrap = 1'000'000'000;

constexpr Span kRefresh = Span::ms(100);  ///< a counter is refreshed at least so often
constexpr Span kMean = Span::s(1);        ///< averaging period of a mean reading
constexpr Span kSlack = Span::ms(200);    ///< tolerance for the time of the earlier sample
constexpr std::int64_t kSteady = 200;     ///< a change by less than 1 / kSteady counts as none
constexpr Int128 kPicoPerMicro = 1'000'000;

Picojoules drawn(Milliwatts power, Span d) { return Picojoules(Int128{power.value()} * d.ns()); }
Picojoules from_millijoules(std::uint64_t mj) { return Picojoules(Int128{mj} * 1'000'000'000); }

}  // namespace

Picojoules EnergyMeter::jump(std::uint64_t from, std::uint64_t to) {
  if (to >= from) return from_millijoules(to - from);
  if (from < kWrap && from >= kWrap - kNearWrap && to < kNearWrap) return from_millijoules(kWrap - from + to);
  ++resets_;
  return since_;  // later energy is known from power readings only
}

std::optional<Picojoules> EnergyMeter::recorded(Instant t) const {
  const auto after = std::ranges::lower_bound(record_, t, {}, &Point::at);
  if (after == record_.end()) return std::nullopt;
  if (after->at == t) return after->total;
  if (after == record_.begin()) return std::nullopt;
  const Point& a = *(after - 1);
  return a.total + Picojoules((after->total - a.total).value() * (t - a.at).ns() / (after->at - a.at).ns());
}

/// Has m stood still for all of the record?
bool EnergyMeter::steady() const {
  const auto [low, high] = std::ranges::minmax(record_, {}, &Point::mean);
  return record_.back().at - record_.front().at >= kMean &&
         (high.mean.value() - low.mean.value()) * kSteady <= high.mean.value();
}

/// The counter got its new value at an instant between the last two points of the record, whose totals are `low` and
/// `high`. Stretches the record since the previous jump if it contradicts this.
void EnergyMeter::agree(Picojoules low, Picojoules high) {
  const Picojoules bound = std::clamp(counted_, low, high);
  const Picojoules estimated = bound - anchor_.total;
  if (counted_ == bound || estimated <= Picojoules()) return;
  // In microjoules, so that products fit into 128 bits.
  const Int128 over = std::max<Int128>(1, estimated.value() / kPicoPerMicro);
  const Int128 rise = std::max<Int128>(0, (counted_ - anchor_.total).value() / kPicoPerMicro);
  for (auto point = record_.rbegin(); point != record_.rend() && point->at > anchor_.at; ++point) {
    point->total = anchor_.total + Picojoules((point->total - anchor_.total).value() * rise / over);
  }
}

void EnergyMeter::sample_mean(std::optional<std::uint64_t> counter_mj, Milliwatts mean, Instant now) {
  const Point before = record_.back();
  const auto to = recorded(now - kMean);
  const auto from = recorded(before.at - kMean);
  Picojoules grown = drawn(mean, now - before.at);  // no better estimate: there was no sample for a second
  if (to && from) {
    const Int128 change = Int128{mean.value() - before.mean.value()} * kMean.ns();
    grown = std::max(Picojoules(), *to - *from + Picojoules(change));
  }
  record_.push_back({now, before.total + grown, mean});
  while (record_[1].at < now - kMean - kSlack) record_.pop_front();
  if (counter_mj && counter_ && *counter_mj != *counter_) {
    const std::int64_t resets = resets_;
    const Picojoules rise = jump(*counter_, *counter_mj);
    if (anchored_ && resets == resets_) {
      counted_ += rise;
      agree(before.total, record_.back().total);
    } else {
      counted_ = before.total + grown / 2;
      anchored_ = true;
    }
    if (steady()) {
      const Point first = record_.front();
      const Picojoules all = record_.back().total - first.total;
      for (Point& point : record_) {
        point.total = first.total + Picojoules(all.value() * (point.at - first.at).ns() / (now - first.at).ns());
      }
    }
    anchor_ = record_.back();
  }
  since_ = record_.back().total;
}

void EnergyMeter::sample(std::optional<std::uint64_t> counter_mj, Milliwatts power, Instant now) {
  const bool mean = reading_ == PowerReading::OneSecondMean;
  if (!started_) {
    started_ = true;
    last_ = now;
    power_ = power;
    counter_ = counter_mj;
    if (mean) {
      const Span past = kMean + kSlack;
      record_ = {{now - past, Picojoules() - drawn(power, past), power}, {now, Picojoules(), power}};
      anchor_ = record_.back();
    }
    return;
  }
  now = std::max(now, last_);
  if (mean) {
    sample_mean(counter_mj, power, now);
  } else {
    // Each sample covers half of the time to its neighbour, because the change may be anywhere in between.
    const Span elapsed = now - last_;
    const Span half = elapsed / 2;
    since_ += drawn(power_, half) + drawn(power, elapsed - half);
    if (counter_mj && counter_ && *counter_mj != *counter_) {
      // The newest jump happened since the last sample, and a period ago at most: halfway is off by half of that.
      const Picojoules after_jump = drawn(power, std::min(elapsed - half, kRefresh / 2));
      if (anchored_) {
        settled_ += jump(*counter_, *counter_mj);
      } else {
        settled_ += since_ - after_jump;  // where in its period the counter was at the start is unknown
        anchored_ = true;
      }
      since_ = after_jump;
    }
  }
  if (counter_mj) counter_ = counter_mj;
  last_ = now;
  power_ = power;
  reported_ = std::max(reported_, settled_ + since_);
}

}  // namespace wattle::node
