#pragma once
// How one request ended: what its span and its line in the log say of it. A value.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/trace_context.h"
#include "model/outcome.h"
#include "net/http_message.h"
#include "units/time.h"

namespace wattle::gateway {

/// X-Request-Id of a request that came without one, or with one too long to be kept.
[[nodiscard]] std::string request_name(RequestId id);
/// The X-Request-Id that its client gave it; empty: none, or one of more than 128 bytes.
[[nodiscard]] std::string_view client_name(const net::HeaderFields& fields);

struct RequestEnd {
  std::string name;                    ///< X-Request-Id, the client's or ours
  std::optional<TraceContext> caller;  ///< its traceparent
  TraceContext own;                    ///< our span, where spans are made; all 0 where they are not
  std::string tracestate;              ///< as it came
  std::string path;                    ///< without the query, which may hold anything
  std::string model;                   ///< that was asked for
  std::string tenant;
  bool stream = false;
  std::int32_t max_tokens = 0;  ///< 0: not said

  Instant arrival;
  Instant started = Instant::never();  ///< first sent to an engine; never: it was not
  Instant first_token = Instant::never();
  Instant left;
  std::int32_t attempts = 0;         ///< how often an engine was chosen for it
  const char* decision = "";         ///< why that engine; static
  const char* decode_decision = "";  ///< why that one for decode, where that is another
  InstanceId instance = kNoInstance;
  InstanceId prefill_instance = kNoInstance;  ///< where that is another
  std::string engine;                         ///< host:port of the instance

  int status = 0;  ///< of HTTP; 0: nobody was there to hear it
  Fate fate = Fate::Finished;
  std::string reason;
  std::int32_t prompt_tokens = 0;  ///< by the engine's count, else as believed
  std::int32_t cached_tokens = -1;
  std::int32_t output_tokens = 0;
  std::int32_t reasoning_tokens = -1;
  std::optional<double> energy_j;  ///< none: nobody metered it, or not in full
  std::optional<double> carbon_g;
  const char* meters = "none";  ///< as LiveLedger::meters()
};

}  // namespace wattle::gateway
