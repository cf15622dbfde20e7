#include "config/names_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/service.h"

namespace wattle::config {
namespace {

template <typename E>
Result<void> names_are_unique(const LoadedScenario& loaded, const char* list, const std::vector<E>& elements) {
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto same = std::ranges::find(elements, elements[i].name, &E::name) - elements.begin();
    if (static_cast<std::size_t>(same) == i) continue;
    return bad_input(loaded.origins.of(fmt::format("{}.{}.name", list, i)),
                     fmt::format("there is a {} of that name already", list));
  }
  return {};
}

/// What `from` mentions in `mention` is one of `named`, or nothing.
template <typename From, typename To>
Result<void> is_named(const LoadedScenario& loaded, const char* list, const std::vector<From>& from,
                      std::string From::*mention, const char* key, const char* of, const std::vector<To>& named) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::string& wanted = from[i].*mention;
    if (wanted.empty() || std::ranges::find(named, wanted, &To::name) != named.end()) continue;
    return bad_input(loaded.origins.of(fmt::format("{}.{}.{}", list, i, key)),
                     fmt::format("there is no [[{}]] of the name \"{}\"", of, wanted));
  }
  return {};
}

Result<void> check_borders(const LoadedScenario& loaded) {
  const ClassOptions& classes = loaded.scenario.classes;
  if (const char* flaw = flaw_of(classes)) {
    const bool prompts = flaw_of(ClassOptions{.prompt_below = classes.prompt_below, .output_below = {}}) != nullptr;
    return bad_input(loaded.origins.of(prompts ? "classes.prompt_below" : "classes.output_below"), flaw);
  }
  return {};
}

Result<void> check_classes(const LoadedScenario& loaded) {
  const Scenario& scenario = loaded.scenario;
  const Classifier classes = classifier_of(scenario.classes);
  const auto known = [&] {
    std::string all;
    for (std::int32_t c = 0; c < classes.size(); ++c) all += (c > 0 ? " " : "") + classes.name(ClassId(c));
    return all;
  };
  for (std::size_t i = 0; i < scenario.class_slos.size(); ++i) {
    if (classes.find(scenario.class_slos[i].name)) continue;
    return bad_input(loaded.origins.of(fmt::format("class.{}.name", i)),
                     fmt::format("there is no class \"{}\"; [classes] makes {}", scenario.class_slos[i].name, known()));
  }
  std::set<std::string> taken;
  for (std::size_t i = 0; i < scenario.serving_pools.size(); ++i) {
    const auto where = loaded.origins.of(fmt::format("pool.{}.classes", i));
    for (const std::string& name : words_of(scenario.serving_pools[i].classes)) {
      if (!classes.find(name)) {
        return bad_input(where, fmt::format("there is no class \"{}\"; [classes] makes {}", name, known()));
      }
      if (!taken.insert(name).second) {
        return bad_input(where,
                         fmt::format("class {} has a pool already; a plan may share it out among several", name));
      }
    }
  }
  return {};
}

Result<void> check_residency(const LoadedScenario& loaded) {
  const Scenario& scenario = loaded.scenario;
  for (std::size_t t = 0; t < scenario.tenants.size(); ++t) {
    const auto wrong = [&](const std::string& what) {
      return bad_input(loaded.origins.of(fmt::format("tenant.{}.residency", t)), what);
    };
    const std::string& stated = scenario.tenants[t].residency;
    const auto names = names_of(stated);
    if (!stated.empty() && names.empty()) return wrong("names no [[site]]; leave it out where any will do");
    for (const auto& name : names) {
      const auto found = std::ranges::find(scenario.sites, name, &SiteOptions::name);
      if (found == scenario.sites.end()) return wrong(fmt::format("there is no [[site]] of the name \"{}\"", name));
      if (found - scenario.sites.begin() >= Residency::kMostSites) {
        return wrong(fmt::format("only the first {} sites can be named", Residency::kMostSites));
      }
    }
  }
  return {};
}

/// Keys of synthetic requests together with a trace, or the reverse.
Result<void> check_synthetic(const LoadedScenario& loaded) {
  const bool trace = !loaded.scenario.workload.trace.empty();
  const char* beside = trace ? "workload.trace" : "workload.synthetic";
  for (const char* path : idle_keys(loaded.scenario)) {
    // A file's own may be left where a --set names the other.
    if (!loaded.origins.has(path) || (loaded.origins.commanded(beside) && !loaded.origins.commanded(path))) continue;
    return bad_input(loaded.origins.of(path),
                     fmt::format("{} is for synthetic requests{} and has no effect with {}: leave it out, or set "
                                 "{} to nothing",
                                 path, trace ? "" : " without a name", beside, beside));
  }
  return {};
}

/// Options of parts that the scenario does not have.
Result<void> check_needs(const LoadedScenario& loaded) {
  const Scenario& s = loaded.scenario;
  const auto& w = s.workload;
  const bool scaled = w.peak_rate_per_s > 0.0 || w.trough_rate_per_s > 0.0 || s.peak_load > 0.0 || s.trough_load > 0.0;
  const bool asked_now_and_then =
      s.measurement.telemetry == TelemetrySource::Streams || s.measurement.telemetry == TelemetrySource::Gauges;
  const bool hands_over =
      std::ranges::any_of(s.pools, [](const PoolOptions& pool) { return pool.role != Role::Colocated; });
  struct Idle {
    const char* key;
    bool works;
    const char* needs;
  };
  const Idle keys[] = {
      {"workload.prefixes", w.prefix.share > 0.0, "workload.prefix_share above 0"},
      {"workload.prefix_tokens", w.prefix.share > 0.0, "workload.prefix_share above 0"},
      {"workload.sessions", w.prefix.session_share > 0.0, "workload.session_share above 0"},
      {"workload.service", w.format == workload::TraceFormat::Counts, "workload.format = counts"},
      {"workload.copies_spread_s", w.copies > 1.0, "workload.copies above 1"},
      {"workload.rate_window_s", scaled, "a peak or trough, such as workload.peak_rate_per_s"},
      {"measurement.telemetry_period_ms", asked_now_and_then, "measurement.telemetry = streams or gauges"},
      {"engine.receive_interval", s.engine.async_scheduling, "engine.async_scheduling"},
      {"engine.batch_wait_share", s.engine.batch_wait_steps > 0, "engine.batch_wait_steps of 1 or more"},
      {"link.bandwidth_gb_per_s", hands_over, "prefill and decode instances"},
      {"link.latency_ms", hands_over, "prefill and decode instances"},
      {"link.handoff_steps", hands_over, "prefill and decode instances"},
  };
  for (const auto& [key, works, needs] : keys) {
    if (works || !loaded.origins.commanded(key)) continue;
    return bad_input(loaded.origins.of(key), fmt::format("{} does nothing without {}", key, needs));
  }
  return {};
}

}  // namespace

std::span<const char* const> idle_keys(const Scenario& scenario) {
  static constexpr const char* kSynthetic[] = {"workload.requests",    "workload.prompt_mean", "workload.prompt_std",
                                               "workload.output_mean", "workload.output_std",  "workload.rate_per_s",
                                               "workload.arrival_cv"};
  constexpr std::size_t kLengthsAlone = 5;  // MLPerf's arrive as the last two say
  const auto& workload = scenario.workload;
  if (!workload.trace.empty() || workload.synthetic == "azure-conv") return kSynthetic;
  return std::span(kSynthetic).first(workload.synthetic.empty() ? 0 : kLengthsAlone);
}

Result<void> check_effects(const LoadedScenario& loaded) {
  if (auto ok = check_synthetic(loaded); !ok) return ok;
  return check_needs(loaded);
}

Result<void> check_file_name(const Origins& origins, const std::string& name) {
  if (!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos) return {};
  return bad_input(origins.of("name"),
                   fmt::format("name is \"{}\"; a run's folder is called so: no '/', not '.', '..' or empty", name));
}

Result<void> check_names(const LoadedScenario& loaded) {
  const Scenario& s = loaded.scenario;
  const std::function<Result<void>()> checks[] = {
      [&] { return names_are_unique(loaded, "site", s.sites); },
      [&] { return names_are_unique(loaded, "class", s.class_slos); },
      [&] { return names_are_unique(loaded, "tier", s.tiers); },
      [&] { return names_are_unique(loaded, "tenant", s.tenants); },
      [&] { return names_are_unique(loaded, "pool", s.serving_pools); },
      [&] { return is_named(loaded, "fleet", s.pools, &PoolOptions::site, "site", "site", s.sites); },
      [&] { return is_named(loaded, "fleet", s.pools, &PoolOptions::pool, "pool", "pool", s.serving_pools); },
      [&] { return is_named(loaded, "tenant", s.tenants, &TenantOptions::tier, "tier", "tier", s.tiers); },
      [&] { return is_named(loaded, "tenant", s.tenants, &TenantOptions::origin, "origin", "site", s.sites); },
      [&] { return check_borders(loaded); },
      [&] { return check_classes(loaded); },
      [&] { return check_residency(loaded); },
  };
  for (const auto& check : checks) {
    if (auto ok = check(); !ok) return ok;
  }
  // The defaults, written out, say nothing either: `wattle config check` prints them.
  const Scenario standard;
  const std::pair<const char*, bool> others[] = {
      {"carbon.intensity_g_per_kwh", s.carbon_intensity != standard.carbon_intensity},
      {"cost.price_usd_per_h", s.gpu_price != standard.gpu_price}};
  for (const auto& [key, differs] : others) {
    if (!s.sites.empty() && differs && loaded.origins.has(key)) {
      return bad_input(loaded.origins.of(key), fmt::format("{} has no effect with [[site]]; set it there", key));
    }
  }
  double shares = 0.0;
  for (const TenantOptions& tenant : s.tenants) shares += tenant.share;
  if (!s.tenants.empty() && shares <= 0.0) {
    return bad_input(loaded.origins.of("tenant.0.share"), "some tenant needs a share above 0");
  }
  return {};
}

}  // namespace wattle::config
