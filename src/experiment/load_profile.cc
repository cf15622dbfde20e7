#include "experiment/load_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/digest.h"
#include "calibrate/profile_repository.h"
#include "config/cache_dir.h"
#include "config/fleet_check.h"
#include "config/locate.h"
#include "config/profile.h"
#include "config/records.h"
#include "config/service.h"

namespace wattle::experiment {

namespace {

constexpr std::size_t kRowsRead = 200'000;  ///< synthetic workloads may be endless
constexpr std::size_t kLengths = 2'000;     ///< of a class

/// Every key of a record, so that none is forgotten that a measurement depends on.
template <typename S>
void add_keys(Digest& digest, const std::vector<config::Option<S>>& options, const S& of) {
  for (const auto& option : options) digest.add_text(option.key + " = " + config::to_text(option.get(of)));
}

/// All that a measurement depends on.
std::uint64_t key_of(const calibrate::ProfiledEngine& engine, const std::vector<calibrate::ClassRequests>& classes,
                     const calibrate::LoadProfilerOptions& options) {
  Digest digest;
  const auto real = [&](double value) { digest.add_text(fmt::format("{}", value)); };
  add_keys(digest, config::gpu_options(), engine.gpu);
  add_keys(digest, config::llm_options(), engine.llm);
  add_keys(digest, config::engine_options(), engine.engine);
  if (const auto factors = config::profile_of(engine.gpu.name, config::project())) {
    digest.add_text(config::to_text({*factors, ""}, {}));
  }
  for (const auto& one : classes) {
    digest.add_text(one.name);
    digest.add(one.limits.ttft.ns());
    digest.add(one.limits.tbt.ns());
    for (const auto& [prompt, output] : one.lengths) {
      digest.add(prompt);
      digest.add(output);
      const auto own = one.held_to.of(TierId(0), one.held_to.sizes().of(prompt, output));
      if (own.ttft && *own.ttft != one.limits.ttft) digest.add(own.ttft->ns());
      if (const auto gap = own.mean_gap(); gap && *gap != one.limits.tbt) digest.add(gap->ns());
      if (own.e2e) digest.add_text(fmt::format("e2e {}", own.e2e->ns()));
    }
  }
  for (const int tp : options.tps) digest.add(tp);
  for (const MegaHertz clock : options.clocks) digest.add(clock.value());
  digest.add(options.requests);
  real(options.quantile);
  real(options.bend);
  digest.add(options.halvings);
  if (options.instances > 1) digest.add(options.instances);
  for (const double share : options.shares) real(share);
  digest.add_text("beyond the limits, within reach, with batches full, kept up with, alone");  // how it is measured
  return digest.value();
}

std::unexpected<Error> no_request_of(const config::LoadedScenario& loaded, const config::ClassOptions& stated,
                                     const std::string& name) {
  const bool own = !stated.stated();
  const char* key = loaded.origins.has("classes.prompt_below") ? "classes.prompt_below" : "classes.output_below";
  return bad_input(own ? loaded.origins.of(key) : loaded.scenario.file,
                   fmt::format("the workload has no request of class {}, which {} makes; move borders, or leave out "
                               "those that no request lies beyond",
                               name, own ? "[classes]" : "the recipe's [classify]"));
}

/// `stated`: the file that states the borders of `classes`, if any.
Result<std::vector<calibrate::ClassRequests>> class_requests(const config::LoadedScenario& loaded,
                                                             const std::string& data_dir, const Classifier& classes,
                                                             const config::ClassOptions& stated,
                                                             std::span<const plan::ShardLimits> limits,
                                                             std::span<const Objectives> by_rank) {
  auto workload = config::locate_workload(loaded.scenario, data_dir);
  if (!workload) return std::unexpected(workload.error());
  workload->start = Span();
  workload->duration = Span::max();
  workload->copies = 1.0;
  const auto source = config::open_workload(loaded, *workload, data_dir);
  if (!source) return std::unexpected(source.error());
  std::vector<calibrate::ClassRequests> made(static_cast<std::size_t>(classes.size()));
  for (std::size_t read = 0; read < kRowsRead; ++read) {
    const auto row = (*source)->next();
    if (!row) break;
    const std::int32_t size = classes.of(row->prompt_tokens, row->output_tokens).value() / classes.tiers();
    for (std::int32_t rank = 0; rank < classes.tiers(); ++rank) {
      made[static_cast<std::size_t>(size * classes.tiers() + rank)].lengths.emplace_back(row->prompt_tokens,
                                                                                         row->output_tokens);
    }
  }
  for (std::size_t c = 0; c < made.size(); ++c) {
    auto& one = made[c];
    one.name = classes.name(ClassId(static_cast<std::int32_t>(c)));
    one.limits = limits[c];
    one.held_to = by_rank[c % by_rank.size()];
    if (one.lengths.empty()) return no_request_of(loaded, stated, one.name);
    if (one.lengths.size() <= kLengths) continue;
    std::vector<std::pair<std::int32_t, std::int32_t>> some;
    for (std::size_t i = 0; i < kLengths; ++i) some.push_back(one.lengths[i * one.lengths.size() / kLengths]);
    one.lengths = std::move(some);
  }
  return made;
}

/// Of the scenario's pools, ascending, each once.
std::vector<int> profiled_tps(const config::LoadedScenario& loaded) {
  std::vector<int> tps;
  for (const auto& pool : loaded.scenario.pools) tps.push_back(pool.tensor_parallel);
  std::ranges::sort(tps);
  tps.erase(std::ranges::unique(tps).begin(), tps.end());
  return tps;
}

/// A profile to be measured, and its name.
struct Wanted {
  calibrate::ProfiledEngine engine;
  calibrate::LoadProfilerOptions options;
  std::string name;
  calibrate::ProfileRepository repository;
};

calibrate::ProfileRepository repository_of(const LoadProfileRequest& request) {
  const std::string cache = config::cache_dir();
  return calibrate::ProfileRepository(request.repository, cache.empty() ? "" : cache + "/profiles");
}

/// Returns the repository's table of this name, or measures and stores it.
template <typename Measure>
Result<std::shared_ptr<const plan::LoadTable>> found_or(const calibrate::ProfileRepository& repository,
                                                        const std::string& name, bool again,
                                                        const std::string& scenario, const Measure& measure) {
  if (!again) {
    auto found = repository.find(name);
    if (!found) return std::unexpected(found.error());
    if (*found) return std::make_shared<const plan::LoadTable>(std::move((*found)->table));
  }
  Result<plan::LoadTable> table = measure();
  if (!table) return std::unexpected(table.error());
  table->provenance.push_back(fmt::format("requests: of {}", scenario));
  if (auto published = repository.publish(name, *table); !published) return std::unexpected(published.error());
  return std::make_shared<const plan::LoadTable>(std::move(*table));
}

Wanted wanted_of(const config::LoadedScenario& loaded, const std::vector<calibrate::ClassRequests>& classes,
                 const LoadProfileRequest& request) {
  const calibrate::ProfiledEngine engine{loaded.gpus.front(), loaded.llm, loaded.scenario.engine};
  auto options = request.options;
  if (options.clocks.empty()) options.clocks = calibrate::clocks_to_profile(engine.gpu);
  options.tps = profiled_tps(loaded);
  std::string name = fmt::format("{}@{}-{:016x}", engine.llm.name, engine.gpu.name, key_of(engine, classes, options));
  return {engine, std::move(options), std::move(name), repository_of(request)};
}

}  // namespace

LoadProfileRequest profile_request(const systems::Recipe& recipe) {
  LoadProfileRequest request;
  request.options.instances = recipe.profiled_together;
  request.options.quantile = recipe.profiled_quantile.value_or(request.options.quantile);
  return request;
}

Result<void> check_tps(const config::LoadedScenario& loaded, const plan::LoadTable& table) {
  for (const int tp : profiled_tps(loaded)) {
    for (const plan::ProfiledClass& one : table.classes) {
      if (std::ranges::find(one.profiles, tp, &plan::ShardProfile::tp) != one.profiles.end()) continue;
      return bad_input(
          loaded.scenario.name,
          fmt::format("has engines at TP{}, too: a table is published once it has all; add others' with --merge", tp));
    }
  }
  return {};
}

Result<int> publish_profile(const config::LoadedScenario& loaded, const std::vector<calibrate::ClassRequests>& classes,
                            const LoadProfileRequest& request, const plan::LoadTable& table) {
  if (auto ok = check_tps(loaded, table); !ok) return std::unexpected(ok.error());
  const Wanted wanted = wanted_of(loaded, classes, request);
  return wanted.repository.publish(wanted.name, table);
}

Result<std::shared_ptr<const plan::LoadTable>> load_profile(const config::LoadedScenario& loaded,
                                                            const std::vector<calibrate::ClassRequests>& classes,
                                                            const LoadProfileRequest& request) {
  if (auto ok = config::check_tensor_parallel_only(loaded, "a load profile"); !ok) return std::unexpected(ok.error());
  const Wanted wanted = wanted_of(loaded, classes, request);
  return found_or(wanted.repository, wanted.name, request.again, loaded.scenario.name,
                  [&] { return calibrate::profile_loads(wanted.engine, classes, wanted.options, request.progress); });
}

namespace {

/// What instances that serve a tier and all looser ones keep: by the tier's place, the loosest first. One for all
/// where tiers are not sorted by.
std::vector<Objectives> objectives_by_rank(const Service& service, const Slo& fleet) {
  const Objectives all = service.judged(fleet);
  if (service.classes.tiers() == 1) return {all.of_strictest_tier()};
  std::vector<Objectives> made;
  for (std::int32_t rank = 0; rank < service.classes.tiers(); ++rank) {
    made.push_back(all.up_to(service.classes, rank).of_strictest_tier());
  }
  return made;
}

}  // namespace

Result<std::vector<calibrate::ClassRequests>> scenario_requests(const config::LoadedScenario& loaded,
                                                                const config::ClassOptions& classes,
                                                                const std::string& data_dir) {
  const Service service = config::make_service(loaded.scenario, classes);
  const auto by_rank = objectives_by_rank(service, loaded.scenario.slo);
  std::vector<plan::ShardLimits> limits;
  for (std::int32_t i = 0; i < service.classes.size(); ++i) {
    const std::int32_t c = i / service.classes.tiers();
    const Objectives& objectives = by_rank[static_cast<std::size_t>(i % service.classes.tiers())];
    // Objectives belong to the scenario's classes, which may have other borders: those of a class's smallest request
    // apply.
    const auto below = [](const std::vector<std::int32_t>& borders, std::int32_t at) {
      return at == 0 ? 1 : borders[static_cast<std::size_t>(at - 1)];
    };
    const std::int32_t prompt = below(service.classes.prompt_below(), c / service.classes.outputs());
    const std::int32_t output = below(service.classes.output_below(), c % service.classes.outputs());
    const Slo& slo = objectives.of(TierId(0), objectives.sizes().of(prompt, output));
    limits.push_back({slo.ttft ? *slo.ttft : slo.e2e.value_or(Span::max()), slo.mean_gap().value_or(Span::max())});
  }
  return class_requests(loaded, data_dir, service.classes, classes, limits, by_rank);
}

namespace {

/// Load profiles distinguish instances only by TP degree, so all must have the same kind of GPU and the same site.
Result<void> check_alike(const config::LoadedScenario& loaded) {
  const auto& pools = loaded.scenario.pools;
  const auto at = [&](std::size_t p, const char* key) { return loaded.origins.of(fmt::format("fleet.{}.{}", p, key)); };
  for (std::size_t p = 1; p < pools.size(); ++p) {
    if (pools[p].gpu != pools.front().gpu) {
      return bad_input(at(p, "gpu"), fmt::format("is {} and the first [[fleet]]'s {}: what plans by load profiles has "
                                                 "GPUs of one kind (the recipes of FREESH plan over several)",
                                                 pools[p].gpu, pools.front().gpu));
    }
    if (pools[p].site != pools.front().site) {
      return bad_input(
          at(p, "site"),
          "is another than the first [[fleet]]'s: what plans by load profiles has one site (the recipes of "
          "FREESH plan over several)");
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<const plan::LoadTable>> scenario_profile(const config::LoadedScenario& loaded,
                                                                const config::ClassOptions& classes,
                                                                const std::string& data_dir,
                                                                const LoadProfileRequest& request) {
  if (auto alike = check_alike(loaded); !alike) return std::unexpected(alike.error());
  return kind_profile(loaded, classes, data_dir, request);
}

Result<std::shared_ptr<const plan::LoadTable>> kind_profile(const config::LoadedScenario& loaded,
                                                            const config::ClassOptions& classes,
                                                            const std::string& data_dir,
                                                            const LoadProfileRequest& request) {
  auto requests = scenario_requests(loaded, classes, data_dir);
  if (!requests) return std::unexpected(requests.error());
  const int tiers = config::make_service(loaded.scenario, classes).classes.tiers();
  const auto table_of = [&]() -> Result<std::shared_ptr<const plan::LoadTable>> {
    auto found = load_profile(loaded, *requests, request);
    if (!found || tiers == 1) return found;
    auto made = std::make_shared<plan::LoadTable>(**found);
    made->tiers = tiers;
    return made;
  };
  auto table = table_of();
  if (!table) return table;
  // A class that no configuration can serve in time is no reason to refuse requests: plans cover the others, and
  // attainment shows the loss.
  bool kept = true;
  for (std::size_t c = 0; c < requests->size(); ++c) {
    calibrate::ClassRequests& one = (*requests)[c];
    const auto reachable = plan::reachable_limits((*table)->classes[c].profiles, one.limits);
    if (reachable == one.limits) continue;
    kept = false;
    fmt::print(stderr, "wattle: no configuration meets the objectives of class {}, so that plans leave {} out: {}\n",
               one.name,
               reachable.ttft == one.limits.ttft ? "TBT"
               : reachable.tbt == one.limits.tbt ? "TTFT"
                                                 : "both",
               plan::nearest_profile((*table)->classes[c].profiles, one.limits));
    one.limits = reachable;
  }
  if (kept) return table;
  auto rest = table_of();
  if (!rest) return rest;
  // Attainment is judged by all objectives of the requests, also those that plans leave out.
  auto made = std::make_shared<plan::LoadTable>(**rest);
  for (std::size_t c = 0; c < requests->size(); ++c) made->classes[c].kept_alone = (*table)->classes[c].kept_alone;
  return made;
}

Result<std::shared_ptr<const plan::LoadTable>> pair_profile(const config::LoadedScenario& loaded,
                                                            const config::ClassOptions& classes,
                                                            const std::string& data_dir, const ProfiledPairOf& of,
                                                            const LoadProfileRequest& request) {
  if (auto ok = config::check_tensor_parallel_only(loaded, "a load profile"); !ok) return std::unexpected(ok.error());
  const auto requests = scenario_requests(loaded, classes, data_dir);
  if (!requests) return std::unexpected(requests.error());
  calibrate::ProfiledPair pair;
  pair.link = loaded.scenario.link;
  Digest digest;
  std::string name = loaded.llm.name + "@";
  const auto add = [&](calibrate::ProfiledPair::Half& half, std::size_t p, MegaHertz clock) {
    half = {{loaded.gpus[p], loaded.llm, loaded.scenario.engine}, loaded.scenario.pools[p].tensor_parallel, clock};
    calibrate::LoadProfilerOptions options = request.options;
    options.tps = {half.tp};
    options.clocks = {clock};
    digest.add(key_of(half.engine, *requests, options));
    name += half.engine.gpu.name;
  };
  add(pair.prefill, of.pair.prefill, of.prefill_clock);
  name += "_";
  add(pair.decode, of.pair.decode, of.decode_clock);
  digest.add_text(fmt::format("{} {}", pair.link.bandwidth_bytes_per_s, pair.link.handoff_steps));
  digest.add(pair.link.latency.ns());
  return found_or(repository_of(request), fmt::format("{}-{:016x}", name, digest.value()), request.again,
                  loaded.scenario.name,
                  [&] { return calibrate::profile_pair_loads(pair, *requests, request.options, request.progress); });
}

namespace {

/// Of the requests, that tenants' shares give each tier, by its place.
std::vector<double> shares_by_rank(const Service& service) {
  std::vector<double> shares(static_cast<std::size_t>(service.classes.tiers()), 0.0);
  double sum = 0.0;
  for (const Tenant& tenant : service.tenants) {
    shares[static_cast<std::size_t>(service.classes.tier_rank(tenant.tier))] += tenant.share;
    sum += tenant.share;
  }
  if (sum <= 0.0) {
    shares.assign(shares.size(), 0.0);
    shares[static_cast<std::size_t>(service.classes.tier_rank(TierId(0)))] = sum = 1.0;
  }
  for (double& share : shares) share /= sum;
  return shares;
}

constexpr Span kMinute = Span::s(60);

struct Minutes {
  std::vector<std::vector<double>> rates;  ///< of a whole minute, by minute and class
  Instant last_arrival;
};

Result<Minutes> minutes_of(const config::LoadedScenario& loaded, const config::ClassOptions& classes,
                           const std::string& data_dir, predict::LengthHint* hint, const plan::LoadTable* loads) {
  const Service service = config::make_service(loaded.scenario, classes);
  const Classifier& sorter = service.classes;
  const std::vector<double> share_of = shares_by_rank(service);
  const auto workload = config::locate_workload(loaded.scenario, data_dir);
  if (!workload) return std::unexpected(workload.error());
  const auto source = config::open_workload(loaded, *workload, data_dir);
  if (!source) return std::unexpected(source.error());
  const auto count = static_cast<std::size_t>(sorter.size());
  // A request's load as a class, counted in requests of another class.
  std::vector<std::vector<double>> load_of(count, std::vector<double>(count, 1.0));
  for (std::size_t was = 0; loads != nullptr && was < count; ++was) {
    for (std::size_t c = 0; c < count; ++c)
      load_of[was][c] = plan::load_in(loads->classes.at(was), loads->classes.at(c));
  }
  Minutes seen;
  auto& minutes = seen.rates;
  while (const auto row = (*source)->next()) {
    seen.last_arrival = row->arrival;
    const auto minute = static_cast<std::size_t>(row->arrival.ns() / kMinute.ns());
    if (minute >= minutes.size()) {
      minutes.resize(minute + 1, std::vector<double>(count, 0.0));
    }
    const std::int32_t output =
        hint == nullptr ? row->output_tokens : hint->predict(row->output_tokens, workload->max_output_tokens);
    const auto at = [&](std::int32_t of_output) {
      return static_cast<std::size_t>(sorter.of(row->prompt_tokens, of_output).value()) / share_of.size() *
             share_of.size();
    };
    for (std::size_t rank = 0; rank < share_of.size(); ++rank) {
      const std::size_t taken_for = at(output) + rank, was = at(row->output_tokens) + rank;
      minutes[minute][taken_for] += share_of[rank] * load_of[was][taken_for] / kMinute.seconds();
    }
  }
  return seen;
}

}  // namespace

Result<std::vector<std::vector<double>>> rates_by_minute(const config::LoadedScenario& loaded,
                                                         const config::ClassOptions& classes,
                                                         const std::string& data_dir, predict::LengthHint* hint,
                                                         const plan::LoadTable* loads) {
  auto minutes = minutes_of(loaded, classes, data_dir, hint, loads);
  if (!minutes) return std::unexpected(minutes.error());
  return std::move(minutes->rates);
}

Result<std::vector<double>> busiest_rates(const config::LoadedScenario& loaded, const config::ClassOptions& classes,
                                          const std::string& data_dir, predict::LengthHint* hint,
                                          const plan::LoadTable* loads) {
  const auto seen = minutes_of(loaded, classes, data_dir, hint, loads);
  if (!seen) return std::unexpected(seen.error());
  const auto& minutes = seen->rates;
  // Loads of a profile already include the bursts within a minute: Poisson arrivals, p99.
  constexpr std::size_t kWindow = 5;
  constexpr double kLeastSeconds = 10.0;
  const std::size_t window = std::min(kWindow, std::max<std::size_t>(1, minutes.size()));
  std::vector<double> most;
  for (std::size_t end = window; end <= minutes.size(); ++end) {
    most.resize(minutes[end - 1].size(), 0.0);
    // A trace that ends within its last minute says nothing of the rest of it.
    const Instant begin = Instant() + kMinute * static_cast<std::int64_t>(end - window);
    const double seconds = std::clamp((seen->last_arrival - begin).seconds(), kLeastSeconds,
                                      static_cast<double>(window) * kMinute.seconds());
    for (std::size_t c = 0; c < most.size(); ++c) {
      double sum = 0.0;
      for (std::size_t m = end - window; m < end; ++m) sum += minutes[m][c];
      most[c] = std::max(most[c], sum * kMinute.seconds() / seconds);
    }
  }
  return most;
}

}  // namespace wattle::experiment
