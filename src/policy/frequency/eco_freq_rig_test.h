#pragma once
// EcoFreq asked by a test: predictions to the nanosecond, and what an instance reports.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "base/wide.h"
#include "policy/frequency/eco_freq.h"

namespace wattle::policy {

inline constexpr MegaHertz kLow{1005};
inline constexpr MegaHertz kHigh{1410};
inline constexpr std::int64_t kAnyKv = std::numeric_limits<std::int64_t>::max();

struct Plane {
  std::int64_t constant_ns = 0;
  std::int64_t per_request_ns = 0;
  std::int64_t per_kv_token_ns = 0;
  std::int64_t per_prompt_token_ns = 0;
};

/// Exact in its own integer arithmetic; `promises` false keeps the interface's default (nothing beyond the present).
class PlaneModel final : public LatencyModel {
 public:
  explicit PlaneModel(std::map<MegaHertz, Plane> planes, bool promises = true)
      : planes_(std::move(planes)), promises_(promises) {}

  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    ++asked;
    const Plane& p = planes_.at(clock);
    return Span(p.constant_ns + p.per_request_ns * shape.decode_requests + p.per_kv_token_ns * shape.decode_kv_tokens +
                p.per_prompt_token_ns * shape.prefill_tokens);
  }
  [[nodiscard]] std::int64_t kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const override {
    if (!promises_) return LatencyModel::kv_tokens_within(shape, clock, budget);
    const Span now = step_time(shape, clock);
    if (now > budget) return shape.decode_kv_tokens;
    const std::int64_t slope = planes_.at(clock).per_kv_token_ns;
    if (slope == 0) return kAnyKv;
    const Int128 more = (Int128{budget.ns()} - now.ns()) / slope;
    return static_cast<std::int64_t>(std::min<Int128>(kAnyKv, shape.decode_kv_tokens + more));
  }

  mutable int asked = 0;

 private:
  std::map<MegaHertz, Plane> planes_;
  bool promises_;
};

/// Decodes: 20 ms + 100 us a request + 100 ns a KV token at the low clock, three quarters of it at the high one.
inline PlaneModel typical() {
  return PlaneModel({{kLow, {20'000'000, 100'000, 100, 100'000}}, {kHigh, {15'000'000, 75'000, 75, 75'000}}});
}

/// 100 W, and 300 more at the high clock.
class CubicPower final : public PowerModel {
 public:
  [[nodiscard]] Milliwatts step_power(const StepShape&, MegaHertz clock) const override {
    const double share = static_cast<double>(clock.value()) / kHigh.value();
    return Milliwatts(static_cast<std::int64_t>(1e3 * (100.0 + 300.0 * share * share * share)));
  }
};

inline EcoFreqOptions options() {
  EcoFreqOptions o;
  o.clocks = {kLow, kHigh};
  return o;
}

/// An instance with these objectives that believes `beliefs`.
inline InstanceSpec believing(const Beliefs& beliefs) {
  InstanceSpec spec;
  spec.slo.ttft = Span::ms(600);
  spec.slo.itl = Span::ms(60);
  spec.kv_capacity_tokens = 2'000'000;
  spec.beliefs = beliefs;
  return spec;
}

/// EcoFreq, asked with one belief or another.
class Asked {
 public:
  explicit Asked(const EcoFreqOptions& options, const Beliefs& known_first = {})
      : Asked(options, believing(known_first)) {}
  Asked(const EcoFreqOptions& options, const InstanceSpec& spec) : policy_(options, spec) {}
  ClockDecision choose(const InstanceView& view, const Beliefs& beliefs, Instant now) {
    return choose_with(believing(beliefs), view, now);
  }
  ClockDecision choose_with(const InstanceSpec& spec, InstanceView view, Instant now) {
    view.spec = &spec;
    return policy_.choose(view, now);
  }
  ClockDecision overrun(const InstanceView& view, Instant now) { return policy_.overrun(view, now); }
  void finished(std::int64_t requests, std::int64_t late) { policy_.finished(ClassId(0), requests, late); }
  [[nodiscard]] std::int64_t disbelieved() const { return policy_.disbelieved(); }

 private:
  EcoFreq policy_;
};

inline InstanceView decoding(std::int32_t requests, std::int64_t kv, Instant at = Instant{}) {
  InstanceView view;
  view.telemetry = Telemetry::Fresh;
  view.step.start = at;
  view.step.shape.decode_requests = requests;
  view.step.shape.decode_kv_tokens = kv;
  return view;
}

inline InstanceView prefilling(std::int64_t tokens, Span waited, Instant at) {
  InstanceView view;
  view.telemetry = Telemetry::Fresh;
  view.step.start = at;
  view.step.shape.prefill_tokens = tokens;
  view.step.shape.prefill_requests = 1;
  view.step.oldest_scheduled_arrival = at - waited;
  return view;
}

}  // namespace wattle::policy
