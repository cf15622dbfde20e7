#include "gateway_seen.h"

#include "log_format.h"

namespace wattle::apps {

void add_seen_flags(Command& command, SeenFlags& flags) {
  command.add_option(
      "--traces-endpoint", flags.traces_endpoint,
      "OpenTelemetry collector, http://HOST:4318: a span per request goes there (OTLP over HTTP, JSON), "
      "and engines are given it as their parent. Without: no spans, clients' traceparent passes as it is");
  command
      .add_option(
          "--traces-sample", flags.traces_sample,
          "share of requests with a span, of those whose caller sends no traceparent; one that does has decided")
      .check(range(0.0, 1.0))
      .capture_default_str();
  command.add_flag("--log-requests", flags.log_requests, "A line on stderr for each request that has ended");
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
