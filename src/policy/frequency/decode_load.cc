#include "policy/frequency/decode_load.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "policy/frequency/clock_choice.h"

namespace wattle::policy {

namespace {

constexpr Span kBucket = Span::s(60);  ///< as TimePrice's
constexpr Span kBetween = Span::ms(100);
/// Lower limit of predictions, so that divisions are safe.
constexpr Span kShortest = Span::us(1);

}  // namespace

DecodeLoad::DecodeLoad(std::span<const MegaHertz> clocks, const InstanceSpec& spec)
    : clocks_(clocks.begin(), clocks.end()),
      latency_(spec.beliefs.latency),
      kv_capacity_tokens_(spec.kv_capacity_tokens),
      max_requests_(spec.max_requests),
      clock_(clocks.size() - 1) {
  WATTLE_CHECK(!clocks_.empty() && latency_ != nullptr, "a load is carried by clocks, in times");
}

double DecodeLoad::seconds(const StepShape& shape, std::size_t clock) const {
  return std::clamp(latency_->step_time(shape, clocks_[clock]), kShortest, kLongestBelievable).seconds();
}

void DecodeLoad::note(const StepShape& shape, std::int32_t waiting, Span limit, Instant now) {
  if (recent_since_ == Instant::never()) recent_since_ = since_ = now;
  if (now - recent_since_ >= kBucket) {
    recent_.lasted = now - recent_since_;
    older_ = std::exchange(recent_, {});
    recent_since_ = now;
  }
  if (shape_.decode_requests > 0 && now > since_) {
    recent_.steps += (now - since_).seconds() / seconds(shape_, clock_) * shape_.decode_requests;
  }
  const std::int32_t requests = shape.decode_requests + waiting;
  recent_.came += std::max(requests - requests_, 0);
  recent_.ended += std::max(requests_ - requests, 0);
  requests_ = requests;
  shape_ = shape;
  since_ = now;
  if (weighed_at_ == Instant::never() || now - weighed_at_ >= kBetween) weigh(limit, now);
}

void DecodeLoad::runs_at(MegaHertz clock) {
  const auto at = std::ranges::lower_bound(clocks_, clock) - clocks_.begin();
  clock_ = std::min(static_cast<std::size_t>(at), clocks_.size() - 1);
}

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

void DecodeLoad::weigh(Span limit, Instant now) {
  weighed_at_ = now;
  least_ = 0;
  const double time = (now - recent_since_ + older_.lasted).seconds();
  if (shape_.decode_requests == 0 || time <= 0.0) return;
  const double answer = (recent_.steps + older_.steps) / (recent_.ended + older_.ended + 1.0);
  const double rate = (recent_.came + older_.came) / time;
  const double asked = rate * answer;
  const StepShape most = largest(shape_, limit);
  const double fastest = seconds(most, clocks_.size() - 1);
  const auto falls_short = [&](double step_s) { return most.decode_requests < asked * step_s && step_s > fastest; };
  while (falls_short(seconds(most, least_))) ++least_;
}

}  // namespace wattle::policy
