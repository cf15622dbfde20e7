#pragma once
// Spans as OTLP's JSON (opentelemetry-proto 1, JSON protobuf encoding), with attributes by OpenTelemetry's semantic
// conventions for HTTP servers and generative AI. Pure.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gateway/request_end.h"

namespace wattle::gateway {

/// An ExportTraceServiceRequest. `unix_ns_at_zero`: the wall clock at Instant(). `host`: this machine's name.
[[nodiscard]] std::string otlp_json(std::span<const std::shared_ptr<const RequestEnd>> requests,
                                    std::int64_t unix_ns_at_zero, std::string_view host);
/// Number of rejected spans according to an ExportTraceServiceResponse; 0 if it does not say.
[[nodiscard]] std::int64_t rejected_spans(std::string_view response);

}  // namespace wattle::gateway
