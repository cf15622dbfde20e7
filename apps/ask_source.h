#pragma once
// Asking a public carbon source: key from a file or the environment, request and parser from the library.
#include <stop_token>
#include <string>

#include "feeds/sources/source.h"

namespace wattle::apps {

/// The answer of query.source. `key_file` holds its key; "": the source's environment variable does. Blocks for at most
/// `timeout` (twice that where a login comes first). Errors: no key, what may not be asked; External: no answer,
/// another status than 200, an answer that is none.
[[nodiscard]] Result<feeds::Feed> ask_source(const feeds::Query& query, const std::string& key_file, Span timeout,
                                             const std::stop_token& stop = {});

}  // namespace wattle::apps
