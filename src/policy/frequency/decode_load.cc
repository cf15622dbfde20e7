#include "policy/frequency/decode_load.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "policy/frequency/clock_choice.h"

namespace wattle::policy {

namespace {

constexpr Span kBetween = Span::ms(100);
constexpr Span kSample = Span::s(1);
/// Batches considered: up to the largest, and half as large again.
constexpr std::int32_t kStridesWithin = 24;
constexpr std::int32_t kStrides = 36;
constexpr double kLeastVariance = 1e-6;

}  // namespace

DecodeLoad::DecodeLoad(std::span<const MegaHertz> clocks, double late, const InstanceSpec& spec)
    : clocks_(clocks.begin(), clocks.end()),
      latency_(spec.beliefs.latency),
      kv_capacity_tokens_(spec.kv_capacity_tokens),
      max_requests_(spec.max_requests),
      late_(late),
      clock_(clocks.size() - 1),
      seconds_(kStrides * clocks.size()) {
  WATTLE_CHECK(!clocks_.empty() && latency_ != nullptr, "a load is carried by clocks, in times");
}

double DecodeLoad::seconds(const StepShape& shape, std::size_t clock) const {
  return believed_seconds(*latency_, shape, clocks_[clock]);
}

void DecodeLoad::note(const StepShape& shape, std::int32_t waiting, Span limit, Instant now) {
  counts_.advance(now);
  if (shape_.decode_requests > 0 && now > since_) {
    counts_.recent.steps += (now - since_).seconds() / seconds(shape_, clock_) * shape_.decode_requests;
  }
  count(shape.decode_requests + waiting, now);
  shape_ = shape;
  since_ = now;
  if (weighed_at_ == Instant::never() || now - weighed_at_ >= kBetween) weigh(limit, now);
}

void DecodeLoad::count(std::int32_t requests, Instant now) {
  counts_.recent.joined += std::max(requests - requests_, 0);
  counts_.recent.left += std::max(requests_ - requests, 0);
  requests_ = requests;
  const bool first = sampled_at_ == Instant::never();
  if (!first && now - sampled_at_ < kSample) return;
  if (!first) {
    const double change = requests - sampled_;
    counts_.recent.changes += change * change;
    counts_.recent.seconds += (now - sampled_at_).seconds();  // also counts time in which the batch did not change
  }
  sampled_at_ = now;
  sampled_ = requests;
}

void DecodeLoad::runs_at(MegaHertz clock) { clock_ = place_of(clocks_, clock); }

StepShape DecodeLoad::largest(const StepShape& like, Span limit) const {
  const std::int64_t context = like.decode_kv_tokens / like.decode_requests;
  const auto of = [&](std::int32_t requests) {
    StepShape shape;
    shape.decode_requests = requests;
    shape.decode_kv_tokens = requests * context;
    return shape;
  };
  std::int32_t within = 1;
  std::int32_t beyond = max_requests_ + 1;
  while (beyond - within > 1) {
    const std::int32_t middle = within + (beyond - within) / 2;
    const StepShape shape = of(middle);
    const bool held = kv_capacity_tokens_ <= 0 || shape.decode_kv_tokens <= kv_capacity_tokens_;
    (held && latency_->step_time(shape, clocks_.back()) <= limit ? within : beyond) = middle;
  }
  return of(within);
}

// With a demand of r tokens/s and answers of a tokens the batch n drifts by (r - n / T(n)) / a per second; arrivals and
// ends add a variance of v per second. The density of such a process is exp(2 / v x the integral of the drift), but for
// a factor.
double DecodeLoad::beyond(std::size_t clock) const {
  std::array<double, kStrides> exponents;
  double exponent = 0.0;
  double highest = -std::numeric_limits<double>::infinity();
  for (std::int32_t i = 0; i < kStrides; ++i) {
    const double requests = (i + 1.0) * stride_;
    const double step_s = seconds_[static_cast<std::size_t>(i) * clocks_.size() + clock];
    exponent += 2.0 / variance_ * (demand_ - requests / step_s) / answer_ * stride_;
    exponents[static_cast<std::size_t>(i)] = exponent;
    highest = std::max(highest, exponent);
  }
  double all = 0.0;
  double above = 0.0;
  for (std::int32_t i = 0; i < kStrides; ++i) {
    const double weight = std::exp(exponents[static_cast<std::size_t>(i)] - highest);
    all += weight;
    if (i >= kStridesWithin) above += weight;
  }
  return above / all;
}

void DecodeLoad::weigh(Span limit, Instant now) {
  weighed_at_ = now;
  least_ = 0;
  const double time = counts_.seconds(now);
  if (shape_.decode_requests == 0 || time <= 0.0) return;
  const double joined = counts_.sum(&Counts::joined);
  const double left = counts_.sum(&Counts::left);
  answer_ = std::max(counts_.sum(&Counts::steps) / (left + 1.0), 1.0);
  demand_ = joined / time * answer_;

  StepShape shape = largest(shape_, limit);
  const std::int32_t most = shape.decode_requests;
  const std::int64_t context = shape.decode_kv_tokens / most;
  const std::size_t top = clocks_.size() - 1;
  for (std::size_t c = 0; c <= top; ++c) seconds_[c] = seconds(shape, c);
  const std::size_t as_fast = lowest_as_fast(clocks_.size(), [&](std::size_t c) { return seconds_[c]; });
  while (least_ < as_fast && most < demand_ * seconds_[least_]) ++least_;
  if (least_ == as_fast) return;

  stride_ = (most + kStridesWithin - 1) / kStridesWithin;
  for (std::int32_t i = 0; i < kStrides; ++i) {
    shape.decode_requests = (i + 1) * stride_;
    shape.decode_kv_tokens = shape.decode_requests * context;
    for (std::size_t c = least_; c <= top; ++c) {
      seconds_[static_cast<std::size_t>(i) * clocks_.size() + c] = seconds(shape, c);
    }
  }
  // Disturbances decay with a rate of about d = 1 / (a T), so changes within t have a mean square of
  // v (1 - exp(-d t)) / d.
  const double sampled = counts_.sum(&Counts::seconds);
  const double squares = sampled > 0.0 ? counts_.sum(&Counts::changes) / sampled : 0.0;
  const double decay = 1.0 / (answer_ * seconds(shape_, clock_));
  variance_ = std::max(squares * decay / (1.0 - std::exp(-decay * kSample.seconds())), kLeastVariance);
  const double allowed = beyond(top) + late_;
  while (least_ < as_fast && beyond(least_) > allowed) ++least_;
}

}  // namespace wattle::policy
