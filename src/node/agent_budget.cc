// The node's watt budget in a running agent.
#include <fmt/format.h>

#include "node/agent_impl.h"
#include "policy/frequency/frequency.h"

namespace wattle::node {

namespace {
using BudgetState = policy::WattBudget::State;
constexpr const char* kReason = "the node's watt budget";
}  // namespace

std::vector<bool> Agent::Impl::without_work() const {
  std::vector<bool> known(metered.size(), true);
  for (std::size_t i = 0; i < core->size(); ++i) {
    const bool none = core->last_report(i) != Instant() && policy::has_no_work(core->view(i));
    for (const std::size_t gpu : engines[i].gpus) known[gpu] = known[gpu] && none;
  }
  return known;
}

/// Only GPUs without work count: what the others will draw is not known beforehand.
Result<void> Agent::Impl::check_budget(Milliwatts watts, const std::vector<bool>& without_work,
                                       const std::string& where) const {
  Milliwatts idle;
  std::size_t gpus = 0;
  for (std::size_t i = 0; i < metered.size(); ++i) {
    if (!without_work[i] && !metered[i].gpu.idle()) continue;
    const auto power = metered[i].gpu.power();
    if (!power.ok()) continue;
    idle = Milliwatts(idle.value() + power.value.value());
    ++gpus;
  }
  if (watts >= idle) return {};
  return bad_input(where, fmt::format("{:.0f} W is less than the {} GPUs draw idle, which is {:.0f} W",
                                      to_watts(watts).value(), gpus, to_watts(idle).value()));
}

void Agent::Impl::set_budget(std::optional<Milliwatts> watts, Instant now) {
  budget.set(watts, now);
  {
    const std::lock_guard guard(meter_mutex);
    for (Metered& m : metered) (void)m.mean.since_last(m.meter.total(), m.read_at);  // means count from here
  }
  actuator->begins();
  apply_ceilings(now);
}

void Agent::Impl::keep_budget(Instant now) {
  if (now < budget.state().next()) return;
  std::vector<NodeBudget::Reading> readings;
  {
    const std::lock_guard guard(meter_mutex);
    for (Metered& m : metered) {
      readings.push_back({m.mean.since_last(m.meter.total(), m.read_at), port->ceilings.wanted(readings.size())});
    }
  }
  std::vector<bool> idle;
  for (std::size_t i = 0; i < core->size(); ++i) {
    idle.push_back(core->last_report(i) != Instant() && policy::has_no_work(core->view(i)));
  }
  const BudgetState before = budget.state().state();
  const bool changed = budget.decide(readings, idle, now);
  const BudgetState after = budget.state().state();
  const double drawn_w = to_watts(budget.state().drawn()).value();
  const double budget_w = to_watts(budget.state().budget().value()).value();
  if (after == BudgetState::Unreachable && before != after) {
    net::log_line(net::LogLevel::Error, "the watt budget cannot be kept at the GPUs' lowest clocks",
                  {{"budget_w", budget_w}, {"drawn_w", drawn_w}});
  } else if (before == BudgetState::Unreachable && before != after) {
    net::log_line(net::LogLevel::Info, "the watt budget is kept again", {{"budget_w", budget_w}, {"drawn_w", drawn_w}});
  }
  if (changed) apply_ceilings(now);
}

/// As the budget has them. An advisory agent only writes them down.
void Agent::Impl::apply_ceilings(Instant now) {
  const bool advisory = options.keeper.advisory;
  for (std::size_t gpu = 0; gpu < metered.size() && !advisory; ++gpu) {
    port->limit(gpu, budget.ceiling(gpu), budget.highest(gpu), now);
  }
  for (Engine& engine : engines) {
    const MegaHertz ceiling = budget.ceiling(engine.gpus.front());
    const MegaHertz was = std::exchange(engine.ceiling, ceiling);
    if (was == ceiling) continue;
    const auto i = core->find(engine.instance);
    const MegaHertz wanted = engine.leased ? leases->commanded(engine.instance) : core->view(*i).clock_commanded;
    const MegaHertz highest = wanted == MegaHertz(0) ? budget.highest(engine.gpus.front()) : wanted;
    const auto gets = [&](MegaHertz limit) { return limit == MegaHertz(0) ? highest : std::min(highest, limit); };
    if (gets(ceiling) != gets(was)) {
      sink.decision({now, journal::DecisionKind::Clock, advisory ? Mode::Shadow : Mode::Enforce, RequestId{-1},
                     engine.instance, gets(ceiling).value(), kReason});
    }
    // The local policy must know the clock at which its steps will run.
    if (!engine.leased && !advisory) core->bound(*i, allowed(engine), now);
  }
}

Result<void> Agent::set_budget(std::optional<Milliwatts> watts) {
  Impl& s = *impl_;
  if (watts) {
    std::vector<bool> without_work;
    {
      const std::lock_guard guard(s.mutex);
      without_work = s.without_work();
    }
    if (auto ok = s.check_budget(*watts, without_work, "the watt budget"); !ok) return ok;  // asks the driver
  }
  const std::lock_guard guard(s.mutex);
  s.set_budget(watts, net::steady_now());
  return {};
}

Agent::Budget Agent::budget() const {
  const Impl& s = *impl_;
  const std::lock_guard guard(s.mutex);
  const auto& state = s.budget.state();
  Budget now{state.budget(), state.drawn(), state.state(), state.level(), state.over(), state.blind(), {}};
  for (std::size_t gpu = 0; gpu < s.metered.size(); ++gpu) {
    now.ceilings.emplace_back(s.metered[gpu].gpu.uuid(), s.budget.ceiling(gpu));
  }
  return now;
}

}  // namespace wattle::node
