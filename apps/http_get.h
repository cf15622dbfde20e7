#pragma once
// A blocking HTTPS GET for the carbon sources. libcurl, because it supports TLS and proxies; the gateway's own client
// is for engines on a plain local network.
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "units/time.h"

namespace wattle::apps {

struct HttpAnswer {
  int status = 0;
  std::string body;
  Span retry_after;  ///< that header, in seconds or as a date; 0: none
};

/// `basic` is "user:password" or "". Follows no redirect (credentials stay with their host) and reads at most 8 MiB.
/// Errors (External, where = the URL): no connection, a bad certificate, no response within `timeout`, `stop` requested
/// (noticed within a second).
[[nodiscard]] Result<HttpAnswer> http_get(const std::string& url, const std::vector<std::string>& headers,
                                          const std::string& basic, Span timeout, const std::stop_token& stop = {});

}  // namespace wattle::apps
