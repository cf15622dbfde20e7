#include "gateway/workers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "gateway/worker_place.h"

namespace wattle::gateway {

namespace {

/// Removed ones, through with their requests, that may be taken back.
constexpr std::ptrdiff_t kRemembered = 256;

}  // namespace

WorkerRegistry::WorkerRegistry(const GatewayOptions& options, ControlStrand& control, AgentLinks* agents,
                               GatewayPolicies::Describe describe, Lost lost)
    : options_(options),
      control_(control),
      agents_(agents),
      describe_(std::move(describe)),
      lost_(std::move(lost)),
      resolver_(options.look_up) {}

Result<GatewayPolicies::Instance> WorkerRegistry::describe(WorkerOptions& worker) const {
  if (describe_) return describe_(worker);
  InstanceSpec spec;
  spec.role = worker.role;
  spec.gpu = options_.kind.gpu;
  spec.llm = options_.kind.llm;
  spec.tensor_parallel = worker.tensor_parallel;
  spec.weight = worker.weight;
  spec.kv_capacity_tokens = worker.kv_capacity_tokens;
  spec.slo = options_.service.judged(options_.slo).strictest();
  return GatewayPolicies::Instance{std::make_shared<const InstanceSpec>(std::move(spec)), {}};
}

Result<std::shared_ptr<const net::Endpoint>> WorkerRegistry::permitted(Result<net::Endpoint> found,
                                                                       std::string_view where) const {
  if (!found) return std::unexpected(found.error());
  if (!found->place.empty() && !options_.worker_places.allow(found->address)) {
    return bad_input(std::string(where), found->address + " is no address that a worker may have (--allow-worker)");
  }
  return std::make_shared<const net::Endpoint>(std::move(*found));
}

Result<void> WorkerRegistry::check_reports(const std::string& endpoint, std::string_view where) const {
  constexpr std::string_view kTcp = "tcp://";
  if (!endpoint.starts_with(kTcp)) return {};
  const auto place = permitted(resolver_.now_or_later("http://" + endpoint.substr(kTcp.size()), where), where);
  return place ? Result<void>() : std::unexpected(place.error());
}

Result<InstanceId> WorkerRegistry::add(const WorkerOptions& stated, std::string_view flag) {
  const auto key_or_flag = [flag](std::string_view key) { return flag.empty() ? key : flag; };
  WorkerOptions wanted = stated;
  auto described = describe(wanted);
  if (!described) return std::unexpected(described.error());
  if (auto allowed = check_reports(wanted.step_reports, key_or_flag("step_reports")); !allowed) {
    return std::unexpected(allowed.error());
  }
  std::shared_ptr<const net::Endpoint> shared;
  if (!wanted.url.empty()) {
    const std::string_view where = key_or_flag("url");
    // At the start a worker may be away, and with it its name; the others are to be served all the same.
    auto found = flag.empty() ? resolver_.now(wanted.url, where) : resolver_.now_or_later(wanted.url, where);
    auto place = permitted(std::move(found), where);
    if (!place) return std::unexpected(place.error());
    shared = std::move(*place);
  }
  Classifier classes;
  control_.run_and_wait([&](control::FleetLoop& core, Instant) { classes = core.classes(); });
  const auto place = place_of(wanted, options_, classes, flag);
  if (!place) return std::unexpected(place.error());
  if (place->site != described->spec->site || place->pool != described->spec->pool ||
      wanted.node != described->spec->node || wanted.decode != kNoInstance) {
    auto spec = std::make_shared<InstanceSpec>(*described->spec);
    spec->site = place->site;
    spec->pool = place->pool;
    spec->node = wanted.node;
    spec->decode = wanted.decode;
    described->spec = std::move(spec);
  }
  InstanceId id = kNoInstance;
  bool decodes = true;  // the other one of its pair
  control_.run_and_wait([&](control::FleetLoop& core, Instant now) {
    const WorkerState* const other = wanted.decode == kNoInstance ? nullptr : find(wanted.decode);
    decodes =
        wanted.decode == kNoInstance || (other != nullptr && other->worker->role == Role::Decode && other->stays() &&
                                         other->options.site == wanted.site && other->options.pool == wanted.pool &&
                                         other->options.pool_id == wanted.pool_id);
    if (!decodes) return;
    InstanceView view;
    view.spec = described->spec.get();
    view.accepting = false;
    control::LoopInstance clock;
    clock.spec = described->spec;
    clock.policy = std::move(described->clock.policy);
    clock.mode = described->clock.mode;
    clock.learner = described->learner;
    id = control_.add_worker(view, shared, wanted.bootstrap_port, std::move(clock),
                             {.step_reports = !wanted.step_reports.empty(), .load_reports = wanted.load_reports},
                             place->models, now);
    const bool starting = shared == nullptr;
    index_.add(id);
    states_.push_back({control_.worker(id), wanted, 0, false, false, starting, starting, false});
    route_by_type(core, now);
    look_at_roles();
    if (static_cast<std::size_t>(id.value()) >= options_.workers.size()) {
      control_.joined({id, *described->spec});
    }
    if (!options_.probe_health && !starting) set_up(core, id, true, now);
  });
  if (!decodes)
    return bad_input(std::string(key_or_flag("decode")),
                     "there is no decode worker of its site and pool with the id that its pair names");
  name_to_agents(wanted, id);
  return id;
}

void WorkerRegistry::name_to_agents(const WorkerOptions& worker, InstanceId id) {
  if (agents_ == nullptr || (worker.step_reports.empty() && worker.url.empty())) return;
  const InstanceId before =
      agents_->know(net::engine_name(worker.step_reports, worker.url, "url").value_or(worker.url), id);
  // The engine that was there before is gone.
  if (before != kNoInstance) {
    control_.run([this, before](control::FleetLoop&, Instant now) { forget(before, now); });
  }
}

Result<void> WorkerRegistry::listen_to(InstanceId id) {
  std::string endpoint;
  control_.run_and_wait([&](control::FleetLoop&, Instant) {
    WorkerState* const state = find(id);
    if (state != nullptr && !std::exchange(state->listening, true)) endpoint = state->options.step_reports;
  });
  if (endpoint.empty()) return {};
  const telemetry::FpmSubscriber::Source source{endpoint, id};
  const std::lock_guard lock(feed_mutex_);
  return feed_ ? feed_->add(source) : start_feed({source});
}

Result<void> WorkerRegistry::start_feed(const std::vector<telemetry::FpmSubscriber::Source>& sources) {
  auto started = TelemetryFeed::start(
      sources, [this](const StepReport& report, Instant received) { control_.report(report, received); },
      [this] { control_.tick(); });
  if (!started) return std::unexpected(started.error());
  feed_ = std::move(*started);
  return {};
}

void WorkerRegistry::set_up(control::FleetLoop& core, InstanceId id, bool up, Instant now) {
  WorkerState* const state = find(id);
  if (state == nullptr || (state->removed && up)) return;
  if (up && !state->up) {  // another process, maybe, that answers to other forms
    state->gauges_form = 0;
    state->gauges_known = false;
  }
  state->up = up;
  state->admitted = state->admitted || up;
  const bool accepts = up && !state->foreign;
  if (core.shown(id).accepting != accepts) core.set_accepting(id, accepts, now);
}

void WorkerRegistry::look_at_roles() {
  const auto some = [&](Role role) {
    return std::ranges::any_of(states_, [&](const WorkerState& s) { return s.worker->role == role && s.stays(); });
  };
  all_divided_ = some(Role::Prefill) && !some(Role::Colocated);
}

std::optional<WorkerRegistry::Standing> WorkerRegistry::standing_at(std::string_view url) {
  const auto wanted = net::normalised_url(url, "url");
  std::optional<Standing> out;
  if (!wanted) return out;
  control_.run_and_wait([&](control::FleetLoop&, Instant) {
    if (const WorkerState* found = at_url(*wanted)) out = Standing{found->worker->id, found->worker->role};
  });
  return out;
}

std::optional<InstanceId> WorkerRegistry::publishing_at(const std::string& step_reports) {
  std::optional<InstanceId> id;
  if (step_reports.empty()) return id;
  control_.run_and_wait([&](control::FleetLoop&, Instant) {
    const auto found = std::ranges::find_if(
        states_, [&](const WorkerState& s) { return s.up && !s.removed && s.options.step_reports == step_reports; });
    if (found != states_.end()) id = found->worker->id;
  });
  return id;
}

std::optional<InstanceId> WorkerRegistry::other_at(InstanceId id, const std::string& url) {
  std::optional<InstanceId> other;
  control_.run_and_wait([&](control::FleetLoop&, Instant) {
    const WorkerState* const state = find(id);
    if (state == nullptr) return;
    const auto place = net::normalised_url(url.empty() ? state->options.url : url, "url");
    const WorkerState* const found = place ? at_url(*place, id) : nullptr;
    if (found != nullptr) other = found->worker->id;
  });
  return other;
}

const WorkerState* WorkerRegistry::at_url(const std::string& normalised, InstanceId but) const {
  const auto found = std::ranges::find_if(states_, [&](const WorkerState& s) {
    return !s.removed && s.worker->id != but && net::normalised_url(s.options.url, "url") == normalised;
  });
  return found == states_.end() ? nullptr : &*found;
}

std::int64_t WorkerRegistry::unmetered(const control::FleetLoop& core, Instant now) const {
  return std::ranges::count_if(states_, [&](const WorkerState& s) {
    const InstanceId id = s.worker->id;
    return (s.stays() || core.shown(id).assigned_requests > 0) && control_.unmetered(id, now);
  });
}

/// As soon as some worker says a type, each class has the pool of its number (FREESH's router).
void WorkerRegistry::route_by_type(control::FleetLoop& core, Instant now) {
  std::vector<PoolWeight> weights;
  if (std::ranges::any_of(states_, [](const WorkerState& s) { return s.stays() && !s.options.type.empty(); })) {
    std::vector<bool> served(static_cast<std::size_t>(core.classes().size()), false);
    for (const WorkerState& s : states_) {
      const auto pool = static_cast<std::size_t>(core.shown(s.worker->id).spec->pool.value());
      if (s.stays() && pool < served.size()) served[pool] = true;
    }
    weights = weights_of_own_pools(served);
  }
  control_.follow_types(std::move(weights), now);
}

WorkerState* WorkerRegistry::find(InstanceId id) {
  const auto i = index_.find(id);
  return i ? &states_[*i] : nullptr;
}

void WorkerRegistry::remove(InstanceId id) {
  control_.run_and_wait([&](control::FleetLoop& core, Instant now) {
    WorkerState* const state = find(id);
    if (state == nullptr) return;
    state->removed = true;
    state->starting = false;
    set_up(core, id, false, now);
    route_by_type(core, now);
    look_at_roles();
    const auto over = [&](const WorkerState& s) {
      return !s.stays() && core.shown(s.worker->id).assigned_requests == 0;
    };
    if (std::ranges::count_if(states_, over) > kRemembered) {
      forget(std::ranges::find_if(states_, over)->worker->id, now);
    }
  });
}

void WorkerRegistry::forget(InstanceId id, Instant now) {
  if (!control_.remove_worker(id, now)) return;
  const std::size_t i = index_.remove(id);
  if (states_[i].listening) unheard_.push_back(id);
  erase_at(states_, i);
  look_at_roles();
  if (agents_ != nullptr) agents_->forget(id);
}

Result<void> WorkerRegistry::take_back(InstanceId id, const std::string& url) {
  std::shared_ptr<const net::Endpoint> moved;
  bool nowhere = false;
  control_.run_and_wait([&](control::FleetLoop&, Instant) {
    const WorkerState* const state = find(id);
    nowhere = state == nullptr || (url.empty() && state->options.url.empty());
  });
  if (nowhere) return bad_input("url", "must say where the worker listens: it is not known yet, or no more");
  if (!url.empty()) {
    auto endpoint = permitted(resolver_.now(url, "url"), "url");
    if (!endpoint) return std::unexpected(endpoint.error());
    moved = std::move(*endpoint);
  }
  if (auto listening = listen_to(id); !listening) return listening;
  bool gone = false;
  WorkerOptions said;
  control_.run_and_wait([&](control::FleetLoop& core, Instant now) {
    WorkerState* const state = find(id);
    gone = state == nullptr;
    if (gone) return;
    if (moved && url != state->options.url) {
      control_.move(id, moved);
      state->worker = control_.worker(id);
      state->options.url = url;
    }
    said = state->options;
    state->starting = false;
    state->removed = false;
    state->misses = 0;
    route_by_type(core, now);
    look_at_roles();
    set_up(core, id, true, now);
  });
  if (gone) return bad_input("", "the worker is gone for good");
  name_to_agents(said, id);
  return {};
}

Result<void> WorkerRegistry::start() {
  std::vector<telemetry::FpmSubscriber::Source> sources;
  for (const auto& worker : options_.workers) {
    const auto added = add(worker, flag_of(worker));
    if (!added) return std::unexpected(added.error());
    if (worker.step_reports.empty()) continue;
    sources.push_back({worker.step_reports, *added});
    control_.run_and_wait([&](control::FleetLoop&, Instant) { find(*added)->listening = true; });
  }
  if (sources.empty()) return {};
  const std::lock_guard lock(feed_mutex_);
  return start_feed(sources);
}

}  // namespace wattle::gateway
