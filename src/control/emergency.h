#pragma once
// What is done where requests are about to miss their deadlines (DynamoLLM, section IV-D): in this order, each step
// only where those before it do not suffice.
//   1. What waits is served by deadline.
//   2. The instance runs at its highest clock.
//   3. Requests that it has not begun go to another instance that is believed to be in time.
//   4. Those that have waited for too long are given back to their clients, who may try again.
// The trigger is a predicted miss: of Beliefs::latency, else of Beliefs::load; without either only time itself tells.
#include <cstdint>
#include <optional>

#include "model/classifier.h"
#include "model/decision.h"
#include "model/instance.h"
#include "model/objectives.h"

namespace wattle::control {

struct EmergencyOptions {
  Mode mode = Mode::Off;  ///< shadow: steps are journaled, not taken
  /// Between two looks: what setting a clock takes (section III-D: 50 to 80 ms). One that comes later than a short
  /// prompt may wait (250 ms) helps nobody.
  Span period = Span::ms(50);
  Span boost = Span::s(5);          ///< at the highest clock for so long after the last predicted miss
  Span squash_after = Span::max();  ///< since arrival; max(): nobody is squashed
  /// Likewise, as a multiple of the time that its objectives leave until its first token; the sooner of both holds.
  std::optional<double> squash_after_objectives = std::nullopt;
  [[nodiscard]] bool squashes() const { return squash_after < Span::max() || squash_after_objectives; }
  /// `due`: when its first token is.
  [[nodiscard]] bool has_waited_too_long(Instant arrival, Instant due, Instant now) const {
    return now - arrival > squash_after ||
           (squash_after_objectives &&
            (now - arrival).seconds() > *squash_after_objectives * (due - arrival).seconds());
  }
  /// A request that its class's pools cannot take may go to larger ones. In any mode.
  bool overflow = true;
};

/// When a request's first token has to come so that its objectives can be met: by TTFT, else by E2E less the time its
/// answer takes; never() where neither is stated.
[[nodiscard]] Instant first_token_due(const Request& request, const Objectives& objectives, const InstanceView& at,
                                      MegaHertz clock);

/// How long an instance takes to compute so many prompt tokens beside the decodes it runs; zero where nothing is
/// believed. `request`: the last of them.
[[nodiscard]] Span prompt_time(const InstanceView& at, std::int64_t prompt_tokens, const Request& request,
                               MegaHertz clock, Instant now);

}  // namespace wattle::control
