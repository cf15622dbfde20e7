#pragma once
// Where what is known of an engine's load comes from, and what its gauges say.
#include <cstdint>
#include <optional>

namespace wattle {

enum class TelemetrySource : std::uint8_t {
  StepStarts,  ///< step reports as steps start: an engine with our scheduler plugin
  StepEnds,    ///< step reports as steps end: SGLang's and Dynamo's forward-pass metrics
  Streams,     ///< what goes through the gateway, counted by it
  Gauges,      ///< the engine's own counts, asked for now and then: /metrics, /v1/loads, /get_load, ORCA headers
};

/// Of one engine at one moment. What it does not say is none.
struct LoadGauges {
  std::optional<std::int32_t> running;  ///< requests in its batch
  std::optional<std::int32_t> waiting;
  std::optional<std::int64_t> kv_tokens;  ///< resident
  std::optional<double> kv_share;         ///< of the cache, 0 to 1
  [[nodiscard]] bool empty() const { return !running && !waiting && !kv_tokens && !kv_share; }
  bool operator==(const LoadGauges&) const = default;
};

}  // namespace wattle
