#pragma once
// Source of what is known about an engine's load, and the values that its gauges give.
#include <cstdint>
#include <optional>

namespace wattle {

enum class TelemetrySource : std::uint8_t {
  StepStarts,  ///< step reports when steps start: an engine with our scheduler plugin
  StepEnds,    ///< step reports when steps have ended: SGLang's and Dynamo's forward-pass metrics
  Streams,     ///< responses that pass through the gateway, counted there
  Gauges,      ///< the engine's own counts, read periodically: /metrics, /v1/loads, /get_load, ORCA headers
};

/// One engine's gauges at one time; values that it does not report are absent.
struct LoadGauges {
  std::optional<std::int32_t> running;  ///< requests in its batch
  std::optional<std::int32_t> waiting;
  std::optional<std::int64_t> kv_tokens;  ///< resident
  std::optional<double> kv_share;         ///< used share of the cache, 0 to 1
  [[nodiscard]] bool empty() const { return !running && !waiting && !kv_tokens && !kv_share; }
  bool operator==(const LoadGauges&) const = default;
};

}  // namespace wattle
