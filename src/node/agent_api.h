#pragma once
// The agent's admin plane: metrics and health for people, engines and clocks for a gateway.
#include <functional>
#include <string>

#include "net/server.h"
#include "node/agent.h"

namespace wattle::node {

/// GET /metrics, /health;
/// GET /engines[?after=N][&steps=M][&of=S]: energy, power and clocks of each engine, the agent's own decisions from
/// number N on and steps from number M on; all there are, if these are numbers of an agent that was started at S;
/// POST /clocks {"lease_ms": L, "clocks": [{"engine": ENDPOINT, "clock_mhz": C}, ...]}: clocks decided by the caller,
/// for engines whose clock is leased. All or nothing; 404 names an engine that is not here, 409 one that is not leased.
/// POST /plan: pools, bounds and objectives of engines (docs/plan-protocol.md).
/// GET /budget; POST /budget {"watts": W}: the node's watt budget from now on; null: none. 400 says what is wrong.
/// `more_metrics`: appended to the agent's own; called only for /metrics. Requests from pages in a browser are refused
/// (net/browser.h).
void answer(Agent& agent, net::Exchange& exchange, const std::function<std::string()>& more_metrics = {});

}  // namespace wattle::node
