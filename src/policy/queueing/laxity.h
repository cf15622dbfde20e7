#pragma once
// Orders of held requests that know how long service takes: earliest deadline first, shortest remaining time first and
// least laxity first (FREESH, section IV-C). All keys are fixed on arrival: the laxities of all that wait fall at the
// same rate, so their order never changes, and a heap of keys is exact (O(log n); the paper re-sorts every tick).
#include <cstdint>

#include "model/request.h"
#include "policy/queueing/queueing.h"
#include "units/time.h"

namespace wattle::policy {

/// How long requests take where nobody waits. The defaults are of the release's profile of Llama3-70B (FREESH, Table
/// 5).
struct ServiceOptions {
  Span ttft = Span::ms(140);  ///< T_TTFT
  Span tbt = Span::ms(30);    ///< T_TBT
  double window = 1.4;        ///< alpha_LLF: W = window x Lat, in which a request is to be done; > 0
  Span congested;             ///< least laxity only while requests wait longer than this; 0: always
};

/// Lat = T_TTFT + tokens x T_TBT, with the tokens predicted (max_tokens where nothing is) less those that came already.
[[nodiscard]] Span service_latency(const ServiceOptions& options, const Request& request, std::int32_t produced = 0);
/// arrival + W: when it should be done.
[[nodiscard]] Instant service_deadline(const ServiceOptions& options, const Request& request);
/// l = (arrival + W) - now - T_remain; negative: it cannot be done in time any more.
[[nodiscard]] Span laxity(const ServiceOptions& options, const Request& request, std::int32_t produced, Instant now);

class EarliestDeadlineFirst final : public QueuePolicy {
 public:
  explicit EarliestDeadlineFirst(ServiceOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::int64_t key(const Request& request, Instant) override {
    return service_deadline(options_, request).ns();
  }

 private:
  ServiceOptions options_;
};

class ShortestRemainingFirst final : public QueuePolicy {
 public:
  explicit ShortestRemainingFirst(ServiceOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::int64_t key(const Request& request, Instant) override {
    return service_latency(options_, request).ns();
  }

 private:
  ServiceOptions options_;
};

/// With options.congested above zero only while requests wait longer than that on their way to an instance (moving
/// mean; until half of it again): FREESH finds that least laxity costs a little in normal load and wins under
/// congestion. Else first come, first served.
class LeastLaxityFirst final : public QueuePolicy {
 public:
  explicit LeastLaxityFirst(ServiceOptions options) : options_(std::move(options)) {}
  [[nodiscard]] EventKinds observes() const override {
    return options_.congested > Span() ? EventKinds::of<event::Started>() : EventKinds();
  }
  void observe(const Event& event, Instant now) override;
  /// The laxity it would have at the beginning of time: orders as the laxity at any instant does. Not congested: the
  /// arrival, which is smaller than that by (window - 1) x Lat, so that those that came in calm times stay in front.
  [[nodiscard]] std::int64_t key(const Request& request, Instant) override {
    return active() ? laxity(options_, request, 0, Instant()).ns() : request.arrival.ns();
  }
  [[nodiscard]] bool active() const { return options_.congested == Span() || congested_; }

 private:
  ServiceOptions options_;
  double waited_s_ = 0.0;  ///< moving mean
  bool congested_ = false;
};

}  // namespace wattle::policy
