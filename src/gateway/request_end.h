#pragma once
// How one request ended: the content of its span and its log line. A value.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/trace_context.h"
#include "model/outcome.h"
#include "net/http_message.h"
#include "units/time.h"

namespace wattle::gateway {

/// X-Request-Id for a request without one, or with one that is too long.
[[nodiscard]] std::string request_name(RequestId id);
/// The client's X-Request-Id; empty: none, or more than 128 bytes.
[[nodiscard]] std::string_view client_name(const net::HeaderFields& fields);

struct RequestEnd {
  std::string name;                    ///< X-Request-Id, the client's or ours
  std::optional<TraceContext> caller;  ///< its traceparent
  TraceContext own;                    ///< our span, if spans are made; otherwise all 0
  std::string tracestate;              ///< as received
  std::string path;                    ///< without the query, which may contain anything
  std::string model;                   ///< as requested
  std::string tenant;
  bool stream = false;
  std::int32_t max_tokens = 0;  ///< 0: not stated

  Instant arrival;
  Instant started = Instant::never();  ///< first sent to an engine; never: it was not sent
  Instant first_token = Instant::never();
  Instant left;
  std::int32_t attempts = 0;         ///< number of times that an engine was chosen for it
  const char* decision = "";         ///< why that engine was chosen; static
  const char* decode_decision = "";  ///< why the decode engine was chosen, if it is another
  InstanceId instance = kNoInstance;
  InstanceId prefill_instance = kNoInstance;  ///< if it is another
  std::string engine;                         ///< host:port of the instance

  int status = 0;  ///< of HTTP; 0: the client had left
  Fate fate = Fate::Finished;
  std::string reason;
  std::int32_t prompt_tokens = 0;  ///< the engine's count, otherwise our estimate
  std::int32_t cached_tokens = -1;
  std::int32_t output_tokens = 0;
  std::int32_t reasoning_tokens = -1;
  std::optional<double> energy_j;  ///< none: not, or not fully, metered
  std::optional<double> carbon_g;
  const char* meters = "none";  ///< as LiveLedger::meters()

  /// What is in the journal; as LiveLedger::Charged. Its fate is the journal's: the core may have refused the request
  /// before it heard that the client had left.
  void booked(const Outcome& outcome, const char* meters_said);
};

}  // namespace wattle::gateway
