#pragma once
// Header fields on their way through the gateway.
#include <string>

#include "net/http_message.h"

namespace wattle::gateway {

/// Those of a client's request that its engine gets, as lines. `own_keys`: clients' credentials are for us;
/// `own_trace`: so is whose child a span is.
void append_passed_on(std::string& lines, const net::HeaderFields& fields, bool own_keys, bool own_trace);
/// Those of an engine's answer other than 200 that its client gets beside the body's type.
void append_passed_back(std::string& lines, const net::HeaderFields& fields);

}  // namespace wattle::gateway
