#include "policy/queueing/laxity.h"

#include <algorithm>

namespace wattle::policy {

Span service_latency(const ServiceOptions& options, const Request& request, std::int32_t produced) {
  const auto& classes = options.classes;
  const auto kind = std::clamp<std::size_t>(static_cast<std::size_t>(std::max(request.request_class.value(), 0)), 0,
                                            classes.size() - 1);
  const std::int32_t tokens =
      request.predicted_output_tokens > 0 ? request.predicted_output_tokens : request.max_tokens;
  const Span decode = classes[kind].tbt * std::max(tokens - produced, 0);
  return produced == 0 ? classes[kind].ttft + decode : decode;
}

Instant service_deadline(const ServiceOptions& options, const Request& request) {
  return request.arrival + Span::from_seconds(service_latency(options, request).seconds() * options.window);
}

Span laxity(const ServiceOptions& options, const Request& request, std::int32_t produced, Instant now) {
  return service_deadline(options, request) - now - service_latency(options, request, produced);
}

}  // namespace wattle::policy
