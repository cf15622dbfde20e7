#pragma once
// What engines' own gauges say of their load, in the forms in which they say it. All are total on any text.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/telemetry_source.h"

namespace wattle::telemetry {

/// A Prometheus page: vllm:num_requests_running, _waiting, kv_cache_usage_perc (or gpu_cache_usage_perc); sglang:
/// num_running_reqs, num_queue_reqs, num_used_tokens, token_usage (sglang_ as well); llamacpp:requests_processing,
/// _deferred. Counts are summed over labels (ranks), shares are the highest. None: it has no such gauge.
[[nodiscard]] std::optional<LoadGauges> read_metrics_page(std::string_view page);

/// SGLang's GET /v1/loads, or GET /get_load of older ones, summed over data-parallel ranks. None: it is something else.
[[nodiscard]] std::optional<LoadGauges> read_loads(std::string_view json);

/// The value of an endpoint-load-metrics response header (ORCA), as TEXT or JSON: named_metrics kv_cache_usage_perc,
/// num_requests_waiting, num_requests_running, and the names that gateways rename them to (kv_cache_utilization,
/// waiting_queue_size, running_queue_size). None: nothing of that.
[[nodiscard]] std::optional<LoadGauges> read_orca(std::string_view header);

/// The names in an engine's GET /v1/models. Empty: none, or it is something else.
[[nodiscard]] std::vector<std::string> read_models(std::string_view json);

}  // namespace wattle::telemetry
