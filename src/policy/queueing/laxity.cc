#include "policy/queueing/laxity.h"

#include <algorithm>
#include <variant>

namespace wattle::policy {

Span service_latency(const ServiceOptions& options, const Request& request, std::int32_t produced) {
  const std::int32_t tokens =
      request.predicted_output_tokens > 0 ? request.predicted_output_tokens : request.max_tokens;
  const std::int32_t left = std::max(tokens - produced, 0);
  return produced == 0 ? options.service().latency(left) : options.tbt * left;
}

Instant service_deadline(const ServiceOptions& options, const Request& request) {
  return request.arrival + Span::from_seconds(service_latency(options, request).seconds() * options.window);
}

Span laxity(const ServiceOptions& options, const Request& request, std::int32_t produced, Instant now) {
  return service_deadline(options, request) - now - service_latency(options, request, produced);
}

void LeastLaxityFirst::observe(const Event& event, Instant now) {
  const auto* started = std::get_if<event::Started>(&event);
  if (started == nullptr) return;
  constexpr double kWeight = 1.0 / 32.0;  // of the newest
  waited_s_ += kWeight * ((now - started->request.arrival).seconds() - waited_s_);
  const double limit = options_.congested.seconds();
  congested_ = waited_s_ > (congested_ ? limit / 2.0 : limit);
}

}  // namespace wattle::policy
