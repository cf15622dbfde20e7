#pragma once
// The agent's admin plane: metrics and health for people, engines and clocks for a gateway.
#include <functional>
#include <string>

#include "net/server.h"
#include "node/agent.h"

namespace wattle::node {

/// GET /metrics, /health;
/// GET /engines[?after=N]: energy, power and clocks of each engine, and the agent's own decisions from number N on;
/// POST /clocks {"lease_ms": L, "clocks": [{"engine": ENDPOINT, "clock_mhz": C}, ...]}: clocks that the caller decides,
/// for engines whose clock is leased. All or nothing; 404 names an engine that is not here, 409 one not leased.
/// GET /budget; POST /budget {"watts": W}: the node's watt budget from now on; null: none. 400 says what is wrong with
/// it. `more_metrics`: behind the agent's own; asked for those alone. What pages in a browser send is refused
/// (net/browser.h).
void answer(Agent& agent, net::Exchange& exchange, const std::function<std::string()>& more_metrics = {});

}  // namespace wattle::node
