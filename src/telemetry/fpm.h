#pragma once
// Forward-pass metrics: one small msgpack message per engine iteration, as SGLang, vLLM and Dynamo publish them.
//
// On the wire: [version, worker_id, dp_rank, counter_id, (timing_scope,) wall_time, scheduled[7], queued[6], (extra)].
// Each of the three structures may instead be a map keyed by field name: that is what msgspec writes for a structure
// that is not declared array-like. The vLLM variant is recognised by its string in fifth place. `extra` is ours: a map
// that others ignore and that may be missing.
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/step.h"

namespace wattle::telemetry {

/// Facts our step report has and the format lacks.
struct FpmExtra {
  std::optional<Span>
      oldest_scheduled_age;               ///< "age_ns": how long the oldest request of this step's prefills has waited
  std::optional<std::int64_t> kv_tokens;  ///< "kv"
  std::optional<std::int64_t> prefill_context_tokens;         ///< "ctx"
  std::optional<std::int64_t> unfinished_prompt_tokens = {};  ///< "left"
  std::optional<MegaHertz> clock;                             ///< "mhz": the commanded clock
  std::optional<bool> at_start;         ///< "start": sent as the iteration begins, not when it has ended
  std::optional<StepYield> yield = {};  ///< "of" decoding requests, "tok" tokens they got
};

struct FpmMessage {
  std::int64_t version = 1;
  std::string_view worker_id;  ///< points into the decoded bytes
  std::int64_t dp_rank = 0;
  std::int64_t counter_id = 0;
  std::string_view timing_scope;  ///< vLLM's variant only
  double wall_time_s = 0.0;
  struct Scheduled {
    std::int64_t num_prefill_requests = 0;
    std::int64_t sum_prefill_tokens = 0;
    double var_prefill_length = 0.0;
    std::int64_t sum_prefill_kv_tokens = 0;
    std::int64_t num_decode_requests = 0;
    std::int64_t sum_decode_kv_tokens = 0;
    double var_decode_kv_tokens = 0.0;
    bool operator==(const Scheduled&) const = default;
  } scheduled;
  struct Queued {
    std::int64_t num_prefill_requests = 0;
    std::int64_t sum_prefill_tokens = 0;
    double var_prefill_length = 0.0;
    std::int64_t num_decode_requests = 0;
    std::int64_t sum_decode_kv_tokens = 0;
    double var_decode_kv_tokens = 0.0;
    bool operator==(const Queued&) const = default;
  } queued;
  FpmExtra extra;
};

enum class FpmError : std::uint8_t {
  Truncated,     ///< ends inside a value
  WrongShape,    ///< a value of another type, or missing ones, where the format has its own
  OtherVersion,  ///< not version 1
  OutOfRange,    ///< negative counts, not-a-number
};
[[nodiscard]] const char* name_of(FpmError error);

/// Appends the message to `out` in positional form; no `extra` element when none of its facts is known.
void encode_fpm(const FpmMessage& message, std::vector<std::uint8_t>& out);
/// Total on any bytes; allocates nothing; unknown trailing elements and map keys are skipped.
[[nodiscard]] std::expected<FpmMessage, FpmError> decode_fpm(std::span<const std::uint8_t> bytes);

/// The report of `instance` that this message means. Ages count back from `now`. Without `extra`, the oldest scheduled
/// arrival is taken as now, resident KV as what this step reads, and attention as half of each prompt's tokens.
[[nodiscard]] StepReport to_step_report(const FpmMessage& message, InstanceId instance, Instant now);
/// The other way round, for an engine that publishes `report` at `now`. `worker_id` must outlive the result.
[[nodiscard]] FpmMessage to_fpm(const StepReport& report, std::string_view worker_id, Instant now);

}  // namespace wattle::telemetry
