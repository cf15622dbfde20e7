// A client's headers: options of a request, its name and trace, and their lines in spans and journal.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "gateway/callers.h"
#include "gateway/otlp.h"
#include "gateway/request_end.h"
#include "gateway/trace_context.h"
#include "journal/decisions_jsonl.h"
#include "net/http_parser.h"

namespace wattle::fuzz {

namespace {

/// Two tenants, two sites, no keys.
struct Service {
  gateway::GatewayOptions options;
  gateway::Tenants tenants{{Tenant{.name = "shop", .tier = TierId(0), .origin = SiteId(1), .priority = 2}}};
  gateway::Callers callers{options, tenants};
  Service() {
    options.sites.resize(2);
    options.sites[0].name = "north";
    options.sites[1].name = "south";
  }
};

std::string broken_rule(const Request& request, std::size_t sites) {
  if (request.prompt_tokens < 0 || request.predicted_output_tokens < 0) return "a negative length was believed";
  if (request.origin.value() < 0 || static_cast<std::size_t>(request.origin.value()) >= sites)
    return "a site that is none";
  if (request.tenant.value() < 0 || request.tier.value() < 0) return "a tenant or tier that is none";
  return "";
}

std::string broken_rule(const gateway::RequestEnd& end) {
  if (end.name.size() > 128 || end.tenant.size() > gateway::Tenants::kNameMax) return "a name too long was kept";
  if (end.name.find_first_of("\r\n") != std::string::npos) return "a name with a line end was kept";
  const auto spans = std::make_shared<const gateway::RequestEnd>(end);
  if (!nlohmann::json::accept(gateway::otlp_json(std::span(&spans, 1), 0, "host"))) return "a span is no JSON";
  std::string line;
  journal::append_json_text(line, end.name);
  if (!nlohmann::json::accept(line) || line.find('\n') != std::string::npos)
    return "a name is no JSON text of one line";
  if (end.caller && gateway::read_traceparent(gateway::traceparent(*end.caller)) != end.caller) {
    return "a trace's context is another one when it is passed on";
  }
  return "";
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      "X-Request-Id: abc/1\r\nX-Wattle-Tenant: shop\r\nX-Wattle-Origin: south\r\nX-Wattle-Priority: -3\r\n",
      "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: v=1\r\nx-slo-ttft-ms: "
      "250.5\r\n",
      "X-Wattle-Prompt-Tokens: 12\r\nX-Wattle-Predicted-Output-Tokens: 40\r\nx-llm-d-slo-ttft-ms: "
      "1e3\r\nX-SMG-Priority: 7\r\n",
  };
}

Verdict parse(std::string_view input) {
  static Service service;
  net::RequestParser parser({.header_bytes = 4096, .body_bytes = 64});
  (void)parser.feed(fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n{}\r\n", input));
  if (!parser.header_done() || parser.problem()) return {false, ""};
  const net::HeaderFields& fields = parser.headers();
  std::shared_ptr<const void> kept;
  const auto caller = service.callers.who(fields, kept);
  if (!caller) return {false, caller.error().status == 400 ? "" : "another status than 400"};
  Request request;
  if (const auto wishes = service.callers.read_wishes(fields, *caller, request); !wishes) {
    return {false,
            wishes.error().status == 400 && !wishes.error().message.empty() ? "" : "a refusal without its reason"};
  }
  if (std::string rule = broken_rule(request, service.options.sites.size()); !rule.empty())
    return {true, std::move(rule)};
  gateway::RequestEnd end;
  end.name = gateway::client_name(fields);
  end.caller = gateway::read_traceparent(fields.get("traceparent"));
  end.tracestate = fields.get("tracestate");
  end.path = parser.target();
  end.tenant = service.tenants.name_of(request.tenant);
  return {true, broken_rule(end)};
}

}  // namespace wattle::fuzz
