#pragma once
// Pages in a browser can send requests to any address that the browser reaches, including an admin plane on loopback.
// Admin planes serve no pages, so what a page sends is refused; programs and scrapers are not.
#include <string_view>

#include "net/exchange.h"

namespace wattle::net {

/// Why a request is taken to come from a page; empty: it comes from a program, or was typed into a browser.
/// - It has an Origin: browsers send one with every POST, PUT and DELETE, and with cross-origin reads.
/// - Its Sec-Fetch-Site is neither "none" (typed) nor "same-origin".
/// - It has an Accept-Language, which every browser sends and programs do not, and its Host is a name other than
///   localhost: a page may have pointed a name of its own here (DNS rebinding), and is then of the same origin.
[[nodiscard]] std::string_view sent_by_page(const HeaderFields& headers);

/// Answers such a request with 403 and returns true.
[[nodiscard]] bool refused_as_page(Exchange& exchange);

}  // namespace wattle::net
