#pragma once
// Measures against requests that are about to miss their deadlines (DynamoLLM, section IV-D), in this order, each only
// if those before it do not suffice.
// 1. Waiting requests are served by deadline.
// 2. The instance runs at its highest clock.
// 3. Requests that it has not begun go to another instance that is predicted to be in time.
// 4. Requests that have waited too long are returned to their clients, who may try again.
// The trigger is a predicted miss: by Beliefs::latency, else by Beliefs::load; without either, only an actual delay.
#include <cstdint>
#include <optional>

#include "model/classifier.h"
#include "model/decision.h"
#include "model/instance.h"
#include "model/objectives.h"

namespace wattle::control {

struct EmergencyOptions {
  Mode mode = Mode::Off;  ///< shadow: steps are journaled, not taken
  /// Time between two checks: the time that setting a clock takes (section III-D: 50 to 80 ms). It must be well below
  /// the time that a short prompt may wait (250 ms).
  Span period = Span::ms(50);
  Span boost = Span::s(5);          ///< duration of the highest clock after the last predicted miss
  Span squash_after = Span::max();  ///< time since arrival; max(): no request is squashed
  /// The same as a multiple of the time that its objectives leave until its first token; the earlier of both applies.
  std::optional<double> squash_after_objectives = std::nullopt;
  [[nodiscard]] bool squashes() const { return squash_after < Span::max() || squash_after_objectives; }
  /// `due`: when its first token is due.
  [[nodiscard]] bool has_waited_too_long(Instant arrival, Instant due, Instant now) const {
    return now - arrival > squash_after ||
           (squash_after_objectives &&
            (now - arrival).seconds() > *squash_after_objectives * (due - arrival).seconds());
  }
  /// Requests that their class's pools cannot take may go to larger ones. Applies in every mode.
  bool overflow = true;
};

/// When a request's first token is due so that its objectives can be met: by TTFT, otherwise by E2E less the time of
/// its answer; never() without either.
[[nodiscard]] Instant first_token_due(const Request& request, const Objectives& objectives, const InstanceView& at,
                                      MegaHertz clock);

/// Predicted time of an instance to compute `prompt_tokens` beside its present decodes; zero without a belief.
/// `request`: the last of them.
[[nodiscard]] Span prompt_time(const InstanceView& at, std::int64_t prompt_tokens, const Request& request,
                               MegaHertz clock, Instant now);

}  // namespace wattle::control
