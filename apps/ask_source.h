#pragma once
// Queries a public carbon source: key from a file or the environment, request and parser from the library.
#include <stop_token>
#include <string>

#include "feeds/sources/source.h"

namespace wattle::apps {

struct SourceAnswer {
  Result<feeds::Feed> feed;
  Span wait;  ///< for which the source asks to be left alone (Retry-After); 0: it does not say
};

/// The response of query.source. `key_file` holds its key; "": the source's environment variable does. Blocks for at
/// most `timeout` (twice that for sources with a login). Errors: no key, a query that the source does not support;
/// External: no response, a status other than 200, a malformed response.
[[nodiscard]] SourceAnswer ask_source(const feeds::Query& query, const std::string& key_file, Span timeout,
                                      const std::stop_token& stop = {});

}  // namespace wattle::apps
