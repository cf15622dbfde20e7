#pragma once
// Decisions are values with a reason. Reasons are static strings: no allocation, safe to journal.
#include <cstdint>
#include <limits>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

/// Whether a policy's decisions are carried out (enforce), only journaled (shadow), or not asked for (off).
enum class Mode : std::uint8_t { Enforce, Shadow, Off };

enum class Admission : std::uint8_t {
  Admit,
  Hold,    ///< keep in the gateway's queue, ask again when something leaves
  Reject,  ///< answer the client with 429 or 503 and the reason
};

struct AdmissionDecision {
  Admission verdict = Admission::Admit;
  const char* reason = "";
  InstanceId instance = kNoInstance;  ///< admitted to this one only; kNoInstance: routing chooses
};

struct RouteDecision {
  InstanceId instance = kNoInstance;  ///< kNoInstance: nothing accepts
  const char* reason = "";
};

/// How long a clock decision is valid without asking again, as long as the requests of the batch and the waiting queue
/// do not change. The default asks at every step.
struct Hold {
  std::int64_t kv_tokens_max = -1;  ///< valid while decode_kv_tokens at a step's start <= this
  Instant until;                    ///< and while the step starts before this
  [[nodiscard]] static Hold forever() { return Hold{std::numeric_limits<std::int64_t>::max(), Instant::never()}; }
  [[nodiscard]] bool covers(std::int64_t kv_tokens, Instant step_start) const {
    return kv_tokens <= kv_tokens_max && step_start < until;
  }
};

struct ClockDecision {
  MegaHertz clock;
  const char* reason = "";
  Hold hold;
};

}  // namespace wattle
