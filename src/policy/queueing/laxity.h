#pragma once
// Orders of held requests by service time: earliest deadline first, shortest remaining time first and least laxity
// first (FREESH, section IV-C). All keys are fixed on arrival: the laxities of all waiting requests fall at the same
// rate, so their order never changes and a heap of keys is exact (O(log n); the paper re-sorts every tick).
#include <cstdint>

#include "model/request.h"
#include "model/service.h"
#include "policy/queueing/queueing.h"
#include "units/time.h"

namespace wattle::policy {

/// Service times without queueing. The defaults are from the release's profile of Llama3-70B (FREESH, Table 5).
struct ServiceOptions {
  Span ttft = Span::ms(140);    ///< T_TTFT
  Span tbt = Span::ms(30);      ///< T_TBT
  double window = 1.4;          ///< alpha_LLF: W = window x Lat, the time in which a request should be done; > 0
  bool preemptive = false;      ///< a held request may displace a running one
  Span margin = Span::ms(500);  ///< a held request's rank must be smaller by at least this much
  Span congested;               ///< least laxity only while requests wait longer than this; 0: always
  [[nodiscard]] ServiceTime service() const { return {ttft, tbt}; }
};

/// Lat = T_TTFT + tokens x T_TBT, with the predicted tokens (max_tokens if none are) less those already produced.
[[nodiscard]] Span service_latency(const ServiceOptions& options, const Request& request, std::int32_t produced = 0);
/// arrival + W: when it should be done.
[[nodiscard]] Instant service_deadline(const ServiceOptions& options, const Request& request);
/// l = (arrival + W) - now - T_remain; negative: the request can no longer be done in time.
[[nodiscard]] Span laxity(const ServiceOptions& options, const Request& request, std::int32_t produced, Instant now);

/// Common part of the three orders. If preemptive, a held request displaces a running one whose rank is larger by more
/// than the margin. The margin represents the cost of displacing: the prompt and the tokens so far are computed again.
class ServiceOrder : public QueuePolicy {
 public:
  explicit ServiceOrder(ServiceOptions options) : options_(options) {}
  [[nodiscard]] std::int64_t key(const Request& request, Instant now) override { return key_again(request, 0, now); }
  [[nodiscard]] bool preemptive() const override { return options_.preemptive; }
  [[nodiscard]] bool reads_steps() const override { return false; }
  [[nodiscard]] std::int64_t waiting_rank(std::int64_t key, Instant) const override {
    return key + options_.margin.ns();
  }

 protected:
  ServiceOptions options_;
};

class EarliestDeadlineFirst final : public ServiceOrder {
 public:
  using ServiceOrder::ServiceOrder;
  [[nodiscard]] std::int64_t key_again(const Request& request, std::int32_t, Instant) override {
    return service_deadline(options_, request).ns();
  }
};

class ShortestRemainingFirst final : public ServiceOrder {
 public:
  using ServiceOrder::ServiceOrder;
  [[nodiscard]] std::int64_t key_again(const Request& request, std::int32_t produced, Instant) override {
    return service_latency(options_, request, produced).ns();
  }
  /// The remaining time of a running request falls with time: both are ranked by when they would be done.
  [[nodiscard]] std::int64_t waiting_rank(std::int64_t key, Instant now) const override {
    return key + now.ns() + options_.margin.ns();
  }
  [[nodiscard]] std::int64_t running_rank(std::int64_t key, Instant dispatched) const override {
    return key + dispatched.ns();
  }
};

/// With options.congested above zero, least laxity applies only while requests wait longer than that on their way to an
/// instance (moving mean; until it is below half of it again), and otherwise first come, first served: FREESH finds
/// that least laxity costs a little under normal load and gains under congestion.
class LeastLaxityFirst final : public ServiceOrder {
 public:
  using ServiceOrder::ServiceOrder;
  [[nodiscard]] EventKinds observes() const override {
    return options_.congested > Span() ? EventKinds::of<event::Started>() : EventKinds();
  }
  void observe(const Event& event, Instant now) override;
  /// The laxity that the request would have at the beginning of time, which orders like the laxity at any instant.
  /// Without congestion: the arrival time, which is smaller by (window - 1) x Lat, so that requests from before the
  /// congestion stay in front.
  [[nodiscard]] std::int64_t key_again(const Request& request, std::int32_t produced, Instant) override {
    if (!active()) return request.arrival.ns();
    return laxity(options_, request, produced, Instant()).ns();
  }
  [[nodiscard]] bool preempts() const override { return options_.preemptive && active(); }
  /// The laxity of waiting requests falls; that of running ones stays constant.
  [[nodiscard]] std::int64_t waiting_rank(std::int64_t key, Instant now) const override {
    return key - now.ns() + options_.margin.ns();
  }
  [[nodiscard]] std::int64_t running_rank(std::int64_t key, Instant dispatched) const override {
    return key - dispatched.ns();
  }
  [[nodiscard]] bool active() const { return options_.congested == Span() || congested_; }

 private:
  double waited_s_ = 0.0;  ///< moving mean
  bool congested_ = false;
};

}  // namespace wattle::policy
