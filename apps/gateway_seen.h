#pragma once
// Flags of the gateway for tracing and logging of requests.
#include <string>

#include "command_line.h"
#include "gateway/request_observer.h"

namespace wattle::apps {

struct SeenFlags {
  std::string traces_endpoint;
  double traces_sample = 1.0;
  bool log_requests = false;
  std::string log_format = "text";
};

void add_seen_flags(Command& command, SeenFlags& flags);
/// Sets the log's format, too: before any thread logs.
[[nodiscard]] gateway::ObserverOptions apply(const SeenFlags& flags);

}  // namespace wattle::apps
