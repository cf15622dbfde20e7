#pragma once
// FREESH's primal-dual controller (primal_dual.h) as a policy over an instance's own step reports. The design is ours:
// docs/decisions/0046.
#include <array>
#include <cstddef>
#include <vector>

#include "policy/frequency/frequency.h"
#include "policy/frequency/latency_limits.h"
#include "policy/frequency/primal_dual.h"

namespace wattle::policy {

struct PrimalDualOptions : LatencyLimitOptions {
  double price = 0.01;       ///< beta: utility, the log of a request's speed, per watt
  double gain = 0.05;        ///< k, a share
  MegaHertz floor{300};      ///< below the instance's lowest clock: that
  Span period = Span::s(1);  ///< between two commands
};

/// The clocks that curves are known at: of those from the floor on where beliefs hold, at most 16 and evenly spaced,
/// the lowest and the highest among them. Ascending.
[[nodiscard]] std::vector<MegaHertz> clocks_from(MegaHertz floor, const InstanceSpec& spec);

/// Each request at the instance is a user. Its rate is the tokens per second that it gets, r(f) what steps of the
/// present batch give by their believed time, P(f) what they draw by belief; both straight between the known clocks. A
/// decoding request's least rate is a token within the limit of gaps (or of their mean), one whose prompt is computed
/// or waits wants its first token within what is left of the limit: an instance that cannot give these has a gamma that
/// rises until the clock does, as MIAD's clock does when a limit was missed. Requests that wait are users whom r(f)
/// gives nothing.
///
/// It iterates for each 20 ms that have passed (at least once a call, at most 50 times) and commands a clock once a
/// period: the lowest that can be locked and is at least f. Starts at the highest clock. A period without work: the
/// lowest clock; work after it: 50 iterations and a command at once. Lost telemetry, or beliefs that are absent or
/// nonsense: the highest. While it works no decision holds: each step is an iteration's.
class PrimalDualClock final : public FrequencyPolicy {
 public:
  PrimalDualClock(const PrimalDualOptions& options, const InstanceSpec& spec);
  ClockDecision choose(const InstanceView& view, Instant now) override;
  void held_to(const InstanceView& view, const Slo& slo) override;
  [[nodiscard]] std::int64_t disbelieved() const override { return disbelieved_; }

 private:
  /// Steps with so many tokens, at the known clocks.
  class Curves final : public ClockCurves {
   public:
    explicit Curves(std::vector<MegaHertz> clocks);
    /// False: nonsense.
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
  /// False: nothing to go by.
  [[nodiscard]] bool iterate(const InstanceView& view, Instant now, bool begins);
  [[nodiscard]] MegaHertz lockable(const InstanceView& view) const;

  PrimalDualOptions options_;
  LatencyLimits limits_;
  Curves curves_;
  PrimalDual controller_;
  MegaHertz clock_{0};  ///< commanded; 0: nothing yet
  const char* reason_ = "";
  bool idle_ = false;  ///< has been for a whole period
  Instant worked_;     ///< when it last had work
  Instant iterated_;
  Instant next_;  ///< command
  std::int64_t disbelieved_ = 0;
};

}  // namespace wattle::policy
