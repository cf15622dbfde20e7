#include "gateway_seen.h"

#include "log_format.h"

namespace wattle::apps {

void add_seen_flags(Command& command, SeenFlags& flags) {
  command.add_option("--traces-endpoint", flags.traces_endpoint,
                     "OpenTelemetry collector, http://HOST:4318: gets a span per request (OTLP over HTTP, JSON), "
                     "which is the parent of the engine's. Without it: no spans, and the client's traceparent is "
                     "passed on");
  command
      .add_option("--traces-sample", flags.traces_sample,
                  "share of requests that get a span, of those without a traceparent; a traceparent states its "
                  "caller's decision")
      .check(range(0.0, 1.0))
      .capture_default_str();
  command.add_flag("--log-requests", flags.log_requests, "Log each finished request on stderr");
  add_log_format_flag(command, flags.log_format);
}

gateway::ObserverOptions apply(const SeenFlags& flags) {
  apply_log_format(flags.log_format);
  gateway::ObserverOptions options;
  options.log_requests = flags.log_requests;
  options.traces_endpoint = flags.traces_endpoint;
  options.traces_sample = flags.traces_sample;
  return options;
}

}  // namespace wattle::apps
