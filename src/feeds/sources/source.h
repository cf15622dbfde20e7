#pragma once
// The public carbon APIs: what to ask, what an answer means. Text in, values out; who carries the bytes is an adapter.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "feeds/sources/query.h"

namespace wattle::feeds {

/// A GET request. Credentials are in `headers` or `basic`, never in the URL, so that a URL may be logged.
struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;  ///< "Name: value"
  std::string basic;                 ///< "user:password" for HTTP Basic; "": none
};

/// `key` is the source's key (for WattTime: the token a login gave). Errors: an empty zone, a time range it lacks or
/// that ends before it begins, a wish the source cannot grant, a key with control characters.
[[nodiscard]] Result<HttpRequest> request_for(const Query& query, std::string_view key);
/// WattTime's login: `credentials` are "user:password".
[[nodiscard]] Result<HttpRequest> watttime_login(std::string_view credentials, const std::string& base_url);
/// The token a login answered with; it holds for 30 minutes.
[[nodiscard]] Result<std::string> watttime_token(std::string_view json, const std::string& name);

/// What an HTTP status other than 200 says, as an External error with the remedy. `retry_after`: as that header states;
/// 0: it is missing.
[[nodiscard]] Error refused(const Query& query, int status, Span retry_after, std::string_view body);

/// The answer to `query`. Errors: JSON that is not JSON or of another shape (where = "name: path"), another unit than
/// the source's own (a percentile above all), another zone than asked for, no value at all.
[[nodiscard]] Result<Feed> parse_answer(const Query& query, std::string_view json, const std::string& name);

}  // namespace wattle::feeds
