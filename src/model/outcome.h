#pragma once
// How a request ended, or that it had not when the run ended: always exactly one fate.
#include <cstdint>
#include <optional>

#include "model/request.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

enum class Fate : std::uint8_t {
  Finished,
  Rejected,   ///< refused by admission, or can never fit
  Failed,     ///< engine died or answered with an error
  Cancelled,  ///< the client went away
  InFlight,   ///< not finished when the run ended
};

/// Energy, carbon and cost of a request, from the ledger. Carbon and cost are NaN if an intensity or price was unknown.
struct Charge {
  Picojoules energy;
  GramsCo2 carbon;
  Usd cost;
  bool metered = true;  ///< false: some of its energy was not measured, so all three are unknown
};

/// Which objectives a request has met; an objective that is not stated counts as met.
struct Kept {
  bool ttft = true, tbt = true, e2e = true;
  bool itl = true;  ///< judged by its mean gap
  [[nodiscard]] bool all() const { return ttft && tbt && e2e && itl; }
};

struct Outcome : Charge {
  Request request;
  Fate fate = Fate::Finished;
  const char* reason = "";
  Instant dispatched;                      ///< sent to its first instance; meaningless when rejected
  Instant prefill_start;                   ///< its first prompt token was scheduled
  Instant first_token = Instant::never();  ///< never: none was produced
  Instant left;                            ///< never: in flight
  std::int32_t output_tokens = 0;
  std::int32_t preemptions = 0;
  InstanceId prefill_instance = kNoInstance;
  InstanceId decode_instance = kNoInstance;  ///< same as prefill_instance when colocated
  Span longest_gap;                          ///< between two of its tokens
  std::int64_t gaps_within_itl = 0;          ///< token gaps within its ITL SLO (output_tokens - 1 gaps in all)
  std::int32_t cached_prompt_tokens = 0;     ///< not computed because their KV was cached; also 0 if not reported
  std::optional<Span> whole_gap = {};        ///< of an answer that was not streamed: its time divided by its tokens

  [[nodiscard]] Span ttft() const { return first_token - request.arrival; }
  [[nodiscard]] Span e2e() const { return left - request.arrival; }
  /// Mean gap between tokens; zero for fewer than two tokens.
  [[nodiscard]] Span tbt() const {
    if (output_tokens < 2) return {};
    return whole_gap ? *whole_gap : (left - first_token) / (output_tokens - 1);
  }
  /// For a finished request. Without a first token TTFT is missed.
  [[nodiscard]] Kept kept(const Slo& slo) const {
    const auto met = [](const std::optional<Span>& limit, Span value) { return !limit || value <= *limit; };
    const bool produced = first_token != Instant::never();
    return {met(slo.ttft, produced ? ttft() : Span::max()), met(slo.tbt, tbt()), met(slo.e2e, e2e()),
            met(slo.itl, tbt())};
  }
};

}  // namespace wattle
