#include "net/browser.h"

#include <algorithm>
#include <string>

#include "net/openai.h"
#include "net/socket.h"

namespace wattle::net {

namespace {

bool has(const HeaderFields& headers, std::string_view name) {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (same_name(headers.at(i).name, name)) return true;
  }
  return false;
}

/// Of a Host field, without its port and brackets.
std::string_view host_of(std::string_view field) {
  if (field.starts_with('[')) return field.substr(1, std::min(field.find(']'), field.size()) - 1);
  return field.substr(0, field.find(':'));
}

/// Nobody's DNS can lead it elsewhere: a number, localhost, and the names below that.
bool is_here(std::string_view host) {
  constexpr std::string_view kLocal = "localhost";
  if (host.empty() || tcp_address(std::string(host), 0)) return true;
  if (host.size() < kLocal.size() || !same_name(host.substr(host.size() - kLocal.size()), kLocal)) return false;
  return host.size() == kLocal.size() || host[host.size() - kLocal.size() - 1] == '.';
}

}  // namespace

std::string_view sent_by_page(const HeaderFields& headers) {
  if (has(headers, "Origin")) return "pages of other origins have no business here";
  const std::string_view site = headers.get("Sec-Fetch-Site");
  if (!site.empty() && site != "none" && site != "same-origin") return "pages of other sites have no business here";
  if (has(headers, "Accept-Language") && !is_here(host_of(headers.get("Host")))) {
    return "a browser is answered at an address or localhost: any page could have pointed a name here";
  }
  return {};
}

bool refused_as_page(Exchange& exchange) {
  const std::string_view why = sent_by_page(exchange.headers());
  if (why.empty()) return false;
  exchange.respond(403, "application/json",
                   error_json({403, std::string(why), "invalid_request_error", "", "sent_by_page"}));
  return true;
}

}  // namespace wattle::net
