#include "planner/manager_service.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "net/log.h"
#include "net/openai.h"
#include "planner/managers_wire.h"

namespace wattle::planner {

namespace {

ManagerAnswer refused(int status, const std::string& why) { return {status, net::problem_json(status, why)}; }

}  // namespace

ManagerAnswer ClusterService::observe(const std::string& body, Instant now) {
  const auto seen = cluster_observation_from_json(body, levels_->pools().pools(), levels_->pools().classes());
  if (!seen) return refused(400, seen.error().message());
  return {200, to_json(levels_->cluster_level().mandate(*seen, now), now)};
}

void PoolService::ask_above(const managers::ClusterObservation& seen, Instant now) {
  const auto answer = caller_.call(above_, "POST", "/observe", to_json(seen));
  std::string problem;
  if (answer && answer->status == 200) {
    auto mandate = mandate_from_json(answer->body, levels_->pools().pools(), now);
    if (mandate) {
      mandate_ = std::move(*mandate);
    } else {
      problem = mandate.error().message();
    }
  } else {
    problem = answer ? answer->body : answer.error().message();
  }
  if (problem.empty() != answered_) {
    answered_ = problem.empty();
    if (answered_) net::log_line(net::LogLevel::Info, "the cluster manager answers again");
    if (!answered_) {
      net::log_line(net::LogLevel::Warning, "the cluster manager does not answer; its last mandate holds",
                    {{"manager", above_}, {"error", problem}});
    }
  }
}

ManagerAnswer PoolService::observe(const std::string& body, Instant now) {
  managers::PoolLevel& pools = levels_->pool_level();
  const auto observed = observation_from_json(body, pools.shapes().size(), levels_->pools().classes(), now);
  if (!observed) return refused(400, observed.error().message());
  auto view = observed->view();
  auto [rates, seen] = levels_->hear(view);
  view.rate_per_s = rates;
  ask_above(seen, now);
  if (!mandate_) {
    if (std::ranges::all_of(seen.gpus, [](int gpus) { return gpus == 0; })) {
      return refused(503, "the cluster manager has not answered yet, and nothing serves");
    }
    managers::ClusterOrder as_it_is;
    as_it_is.number = -1;
    as_it_is.from = now;
    as_it_is.until = Instant::never();
    as_it_is.load_per_s.assign(seen.gpus.size(), 0.0);
    as_it_is.shed_per_s.assign(seen.gpus.size(), 0.0);
    as_it_is.gpus = std::move(seen.gpus);
    as_it_is.forwarded = std::move(seen.forwarded);
    return {200, to_json(pools.plan(view, {std::move(as_it_is), {}}), now)};
  }
  // Its epoch has come while it does not answer.
  if (mandate_->next && now >= mandate_->next->from) {
    mandate_->present = std::move(*std::exchange(mandate_->next, std::nullopt));
  }
  return {200, to_json(pools.plan(view, *mandate_), now)};
}

}  // namespace wattle::planner
