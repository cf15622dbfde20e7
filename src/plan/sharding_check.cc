#include "plan/sharding_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace wattle::plan {

namespace {
/// Values at a load by straight lines through the measured points; false outside them.
bool read_off(const ShardProfile& profile, double load, double& watts, double& ttft_ms, double& tbt_ms) {
  for (std::size_t i = 1; i < profile.points.size(); ++i) {
    const LoadPoint& a = profile.points[i - 1];
    const LoadPoint& b = profile.points[i];
    if (load < a.load_per_s || load > b.load_per_s * (1 + 1e-9)) continue;
    const double t = (load - a.load_per_s) / (b.load_per_s - a.load_per_s);
    watts = (1 - t) * a.power.value() + t * b.power.value();
    ttft_ms = (1 - t) * a.ttft.millis() + t * b.ttft.millis();
    tbt_ms = (1 - t) * a.tbt.millis() + t * b.tbt.millis();
    return true;
  }
  return false;
}
}  // namespace

std::vector<std::string> check_sharding(const ShardingProblem& problem, const ShardingPlan& plan) {
  std::vector<std::string> faults;
  if (!plan.found()) {
    if (!plan.groups.empty()) faults.emplace_back("a plan without an answer has instances");
    return faults;
  }
  const std::size_t classes = problem.classes.size();
  if (plan.forwarded_per_s.size() != classes || plan.shed_per_s.size() != classes) {
    return {"it does not say what each class forwards and sheds"};
  }
  constexpr double kTolerance = 1e-5;
  long long gpus = 0;
  double watts = 0.0;
  std::vector<double> served(classes, 0.0);
  std::set<std::pair<std::size_t, int>> seen;
  for (const InstanceGroup& group : plan.groups) {
    if (group.pool >= classes || group.instances < 1) return {"a group names no class or has no instances"};
    const ShardClass& one = problem.classes[group.pool];
    const std::string where = fmt::format("{} TP{} at {} MHz", one.name, group.tp, group.clock.value());
    if (!seen.emplace(group.pool, group.tp).second) faults.push_back(where + ": its TP degree runs in two ways");
    gpus += static_cast<long long>(group.tp) * group.instances;
    watts += group.power.value() * group.instances;
    served[group.pool] += group.load_per_s * group.instances;
    const auto profile = std::ranges::find_if(
        one.profiles, [&](const ShardProfile& p) { return p.tp == group.tp && p.clock == group.clock; });
    double power = 0.0, ttft = 0.0, tbt = 0.0;
    if (profile == one.profiles.end() || !read_off(*profile, group.load_per_s, power, ttft, tbt)) {
      faults.push_back(where + ": no profile reaches its load");
      continue;
    }
    if (ttft > one.limits.ttft.millis() * (1 + kTolerance)) faults.push_back(where + ": TTFT over the limit");
    if (tbt > one.limits.tbt.millis() * (1 + kTolerance)) faults.push_back(where + ": TBT over the limit");
    if (std::abs(power - group.power.value()) > kTolerance * std::max(1.0, power)) {
      faults.push_back(fmt::format("{}: draws {:.6g} W, not {:.6g}", where, power, group.power.value()));
    }
  }
  if (gpus > problem.gpus) faults.push_back(fmt::format("{} GPUs used, {} there", gpus, problem.gpus));
  double arriving = 0.0, shed = 0.0;
  for (std::size_t c = 0; c < classes; ++c) {
    const double load = problem.classes[c].load_per_s + arriving;
    const double out = served[c] + plan.forwarded_per_s[c] + plan.shed_per_s[c];
    if (plan.forwarded_per_s[c] < -kTolerance || plan.shed_per_s[c] < 0.0) faults.emplace_back("a negative load");
    if (std::abs(out - load) > kTolerance * std::max(1.0, load)) {
      faults.push_back(fmt::format("{}: {:.6g}/s arrive, {:.6g}/s are served, forwarded or shed",
                                   problem.classes[c].name, load, out));
    }
    arriving = plan.forwarded_per_s[c] * problem.classes[c].load_in_next;
    shed += plan.shed_per_s[c];
  }
  if (arriving > kTolerance) faults.emplace_back("the largest class forwards");
  if ((plan.status == ShardingStatus::Shed) != (shed > 0.0))
    faults.emplace_back("its status does not say what it sheds");
  const long long node = problem.gpus_per_node;
  const long long on = node > 0 ? (gpus + node - 1) / node * node : problem.gpus;
  watts += problem.unused_gpu.value() * static_cast<double>(on - gpus);
  if (std::abs(watts - plan.power.value()) > kTolerance * std::max(1.0, watts))
    faults.emplace_back("its power is not that of its instances");
  if (plan.bound.value() > plan.power.value() * (1 + kTolerance)) faults.emplace_back("its bound lies above its power");
  return faults;
}

}  // namespace wattle::plan
