#pragma once
// FREESH's primal-dual controller (primal_dual.h) as a policy that reads an instance's own step reports. The design is
// ours: docs/decisions/0046.
#include <array>
#include <vector>

#include "policy/frequency/frequency.h"
#include "policy/frequency/latency_limits.h"
#include "policy/frequency/primal_dual.h"

namespace wattle::policy {

struct PrimalDualOptions : LatencyLimitOptions {
  double price = 0.01;       ///< beta: utility (log of a request's speed) per watt
  double gain = 0.05;        ///< k, relative
  MegaHertz floor{300};      ///< at least the instance's lowest clock
  Span period = Span::s(1);  ///< between two clock commands
};

/// The clocks at which the curves are evaluated: at most 16, evenly spaced between the floor and the highest clock,
/// both included, within the range of the beliefs. Ascending.
[[nodiscard]] std::vector<MegaHertz> clocks_from(MegaHertz floor, const InstanceSpec& spec);

/// Each request at the instance is a user. Its rate is the tokens per second that it gets. r(f) is the token rate of
/// the present batch by the predicted step time, P(f) the predicted power; both are interpolated linearly between the
/// evaluated clocks. The lower bound of a decoding request's rate is one token per gap limit (or per limit on mean
/// gaps), that of a request with an unfinished prompt a first token within what is left of its limit. If the instance
/// cannot give these rates, gamma rises until the clock does, as MIAD's clock rises when a limit was missed. Waiting
/// requests are users that get nothing from r(f).
///
/// One iteration per 20 ms that have passed (at least one per call, at most 50), and one clock command per period: the
/// lowest lockable clock that is at least f. Starts at the highest clock. After a period without work: the lowest
/// clock; when work arrives then: 50 iterations and a command at once. With lost telemetry, or absent or implausible
/// beliefs: the highest. While there is work no decision holds, because every step runs an iteration.
class PrimalDualClock final : public FrequencyPolicy {
 public:
  PrimalDualClock(const PrimalDualOptions& options, const InstanceSpec& spec);
  ClockDecision choose(const InstanceView& view, Instant now) override;
  void held_to(const InstanceView& view, const Slo& slo) override;
  [[nodiscard]] std::int64_t disbelieved() const override { return disbelieved_; }

 private:
  /// r(f) and P(f) for steps with a given number of tokens, at the evaluated clocks.
  class Curves final : public ClockCurves {
   public:
    explicit Curves(std::vector<MegaHertz> clocks);
    /// False: the beliefs are implausible.
    [[nodiscard]] bool fill(const Beliefs& beliefs, const StepShape& shape, double tokens);
    [[nodiscard]] double power_w(double ghz) const override { return between(power_w_, ghz); }
    [[nodiscard]] double rate_per_s(double ghz) const override { return between(rate_per_s_, ghz); }

   private:
    [[nodiscard]] double between(const std::vector<double>& values, double ghz) const;
    std::vector<MegaHertz> clocks_;
    std::vector<double> power_w_;
    std::vector<double> rate_per_s_;
  };

  [[nodiscard]] std::array<Flow, 2> flows_of(const InstanceView& view, Instant now) const;
  /// False: no plausible beliefs.
  [[nodiscard]] bool iterate(const InstanceView& view, Instant now, bool begins);
  [[nodiscard]] MegaHertz lockable(const InstanceView& view) const;

  PrimalDualOptions options_;
  LatencyLimits limits_;
  Curves curves_;
  PrimalDual controller_;
  MegaHertz clock_{0};  ///< commanded; 0: none yet
  const char* reason_ = "";
  bool idle_ = false;  ///< for a whole period or longer
  Instant worked_;     ///< when it last had work
  Instant iterated_;
  Instant next_;  ///< command
  std::int64_t disbelieved_ = 0;
};

}  // namespace wattle::policy
