#pragma once
// Header fields that pass through the gateway.
#include <string>
#include <string_view>

#include "net/http_message.h"

namespace wattle::gateway {

/// A client's header fields that its engine gets, as lines. `own_keys`: clients' credentials are the gateway's and not
/// passed on; `own_trace`: nor is the trace parent.
void append_passed_on(std::string& lines, const net::HeaderFields& fields, bool own_keys, bool own_trace);
/// We have sent it on before, under that name: one of our workers leads back to us.
[[nodiscard]] bool was_sent_by(const net::HeaderFields& fields, std::string_view via);
/// Header fields of an engine's answer other than 200 that its client gets, besides the content type.
void append_passed_back(std::string& lines, const net::HeaderFields& fields);

}  // namespace wattle::gateway
