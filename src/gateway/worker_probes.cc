// What workers are asked again and again: their health, their models, their load.
#include <algorithm>
#include <array>
#include <utility>

#include "gateway/workers.h"
#include "net/clock.h"
#include "net/log.h"
#include "telemetry/gauges.h"

namespace wattle::gateway {

namespace {

class HealthProbe final : public net::ResponseHandler {
 public:
  using Over = std::function<void(bool healthy)>;
  explicit HealthProbe(Over over) : over_(std::move(over)) {}
  void on_head(int status, const net::HeaderFields&, std::int64_t) override { healthy_ = status / 100 == 2; }
  void on_body(std::string_view) override {}
  void on_end() override { over_(healthy_); }
  void on_failure(net::CallFailure) override { over_(false); }

 private:
  Over over_;
  bool healthy_ = false;
};

/// Collects a worker's answer, of which it keeps a bounded part.
class WorkerReading : public net::ResponseHandler {
 public:
  WorkerReading(WorkerRegistry& workers, InstanceId id, std::size_t most) : workers_(workers), id_(id), most_(most) {}
  void on_head(int status, const net::HeaderFields&, std::int64_t) final { status_ = status; }
  void on_body(std::string_view bytes) final {
    if (body_.size() + bytes.size() <= most_) body_ += bytes;
  }

 protected:
  WorkerRegistry& workers_;
  InstanceId id_;
  int status_ = 0;
  std::string body_;

 private:
  std::size_t most_;
};

constexpr std::size_t kModelsMost = 1 << 20;

/// The second half of a probe: whatever it answers here, it is healthy.
class ModelsReading final : public WorkerReading {
 public:
  ModelsReading(WorkerRegistry& workers, InstanceId id) : WorkerReading(workers, id, kModelsMost) {}
  void on_end() override {
    if (status_ == 200) workers_.lists(id_, telemetry::read_models(body_));
    workers_.probed(id_, true);
  }
  void on_failure(net::CallFailure) override { workers_.probed(id_, true); }
};

/// SGLang's, that of older ones, and everybody's.
constexpr std::array<std::string_view, 3> kGaugePaths = {"/v1/loads?include=core", "/get_load", "/metrics"};
constexpr std::size_t kGaugesMost = 4 << 20;

class GaugeReading final : public WorkerReading {
 public:
  GaugeReading(WorkerRegistry& workers, InstanceId id, std::size_t form)
      : WorkerReading(workers, id, kGaugesMost), form_(form) {}
  void on_end() override {
    if (status_ >= 500) return;  // not now
    const bool page = form_ + 1 == kGaugePaths.size();
    const auto said = status_ != 200 ? std::nullopt
                      : page         ? telemetry::read_metrics_page(body_)
                                     : telemetry::read_loads(body_);
    workers_.gauged(id_, form_, said, asked_ + (net::steady_now() - asked_) / 2);
  }
  void on_failure(net::CallFailure) override {}

 private:
  std::size_t form_;
  Instant asked_ = net::steady_now();
};

}  // namespace

void WorkerRegistry::probed(InstanceId id, bool healthy) {
  control_.run([this, id, healthy](control::FleetLoop& core, Instant now) {
    WorkerState* const state = find(id);
    if (state == nullptr) return;
    state->misses = healthy ? 0 : state->misses + 1;
    if (healthy != state->up && (healthy || state->misses >= options_.health_misses)) set_up(core, id, healthy, now);
  });
}

void WorkerRegistry::probe_all() {
  std::vector<std::shared_ptr<const Worker>> all;
  std::vector<InstanceId> to_drop;
  std::vector<std::pair<std::shared_ptr<const Worker>, std::string>> lost;
  control_.run_and_wait([&](control::FleetLoop& core, Instant) {
    to_drop = std::exchange(unheard_, {});
    for (auto& state : states_) {
      // A removed one is asked and listened to for as long as it has requests: it may hang with them.
      const bool concerns = !state.removed || core.shown(state.worker->id).assigned_requests > 0;
      if (concerns) all.push_back(state.worker);
      if (concerns && !state.up && state.misses >= options_.health_misses) {
        lost.emplace_back(state.worker, state.options.url);
      }
      if (concerns || !state.listening) continue;
      state.listening = false;
      to_drop.push_back(state.worker->id);
    }
  });
  if (feed_) {
    for (const InstanceId id : to_drop) feed_->drop(id);
  }
  for (const auto& [worker, url] : lost) {
    lost_(worker, false);
    resolver_.again(
        url, [this, id = worker->id, url = url](Result<net::Endpoint> found) { looked_up(id, url, std::move(found)); });
  }
  if (!prober_) return;
  const std::string via = "Via: 1.1 " + options_.via + "\r\n";  // a worker that leads back to us says that it does
  for (const auto& worker : all) {
    const auto over = [this, worker](bool healthy) { healthy ? ask_models(worker) : probed(worker->id, false); };
    prober_->send(worker->endpoint, "GET", "/health", via, {}, std::make_shared<HealthProbe>(over));
  }
}

void WorkerRegistry::ask_models(const std::shared_ptr<const Worker>& worker) {
  if (!prober_) return;
  prober_->send(worker->endpoint, "GET", "/v1/models", {}, {}, std::make_shared<ModelsReading>(*this, worker->id));
}

/// A pod that comes back has another address than the one that went.
void WorkerRegistry::looked_up(InstanceId id, const std::string& url, Result<net::Endpoint> found) {
  control_.run([this, id, url, place = permitted(std::move(found), url)](control::FleetLoop&, Instant) {
    WorkerState* const state = find(id);
    if (state == nullptr || state->up || state->options.url != url) return;
    const std::string problem = place ? "" : place.error().message();
    if (std::exchange(state->no_address, problem) != problem && !place) {
      net::log_line(net::LogLevel::Warning, "a worker that does not answer has no address", {{"error", problem}});
    }
    if (!place || (*place)->place == state->worker->endpoint->place) return;
    net::log_line(net::LogLevel::Info, "a worker that did not answer has another address now",
                  {{"worker", url}, {"address", (*place)->address}});
    control_.move(id, *place);
    lost_(std::exchange(state->worker, control_.worker(id)), true);
  });
}

void WorkerRegistry::lists(InstanceId id, const std::vector<std::string>& models) {
  if (models.empty()) return;  // it does not say
  control_.run([this, id, models](control::FleetLoop& core, Instant now) {
    WorkerState* const state = find(id);
    if (state == nullptr) return;
    const auto& own = state->options.models.empty() ? options_.models : state->options.models;
    const bool some = std::ranges::find_first_of(own, models) != own.end();
    state->listed = state->listed || some;
    if (some) state->denied = false;
    const bool foreign = !some && (state->listed || state->denied);
    if (std::exchange(state->foreign, foreign) == foreign) return;
    net::log_line(foreign ? net::LogLevel::Warning : net::LogLevel::Info,
                  foreign ? "a worker has other models than stated and gets no requests"
                          : "a worker has its model again and gets requests",
                  {{"worker", state->options.url}, {"model", models.front()}});
    set_up(core, id, state->up, now);
  });
}

void WorkerRegistry::denied_model(InstanceId id) {
  control_.run([this, id](control::FleetLoop&, Instant) {
    if (WorkerState* const state = find(id); state != nullptr) state->denied = true;
  });
}

std::int64_t WorkerRegistry::foreign() const {
  return std::ranges::count_if(states_, [](const WorkerState& s) { return s.up && s.foreign && !s.removed; });
}

void WorkerRegistry::start_probing(net::Loop& loop) {
  loop.post([this, &loop] {
    prober_ = std::make_unique<net::HttpClient>(loop, net::ClientOptions::within(options_.probe_timeout));
    probe_all();
  });
  loop.every(options_.health_period, [this] { probe_all(); });
  if (options_.gauges_period > Span()) loop.every(options_.gauges_period, [this] { read_all_gauges(); });
}

void WorkerRegistry::read_all_gauges() {
  struct Asked {
    std::shared_ptr<const Worker> worker;
    std::size_t form;
  };
  std::vector<Asked> all;
  control_.run_and_wait([&](control::FleetLoop&, Instant) {
    for (const auto& state : states_) {
      if (!state.up || state.removed || state.gauges_form >= kGaugePaths.size()) continue;
      if (!state.worker->load_reports && !control_.hears_steps(state.worker->id))
        all.push_back({state.worker, state.gauges_form});
    }
  });
  if (!prober_) return;
  for (const auto& [worker, form] : all) {
    prober_->send(worker->endpoint, "GET", kGaugePaths[form], {}, {},
                  std::make_shared<GaugeReading>(*this, worker->id, form));
  }
}

void WorkerRegistry::gauged(InstanceId id, std::size_t form, const std::optional<LoadGauges>& gauges, Instant read) {
  if (gauges) control_.gauges(id, *gauges, read);
  control_.run([this, id, form, known = gauges.has_value()](control::FleetLoop&, Instant) {
    WorkerState* const state = find(id);
    if (state == nullptr || state->gauges_form != form) return;
    state->gauges_known = state->gauges_known || known;
    if (!state->gauges_known) ++state->gauges_form;
  });
}

void WorkerRegistry::stop_probing(net::Loop& loop) {
  resolver_.stop();
  loop.run([this] { prober_.reset(); });
}

void WorkerRegistry::refused_connection(InstanceId id) {
  control_.run([this, id](control::FleetLoop& core, Instant now) { set_up(core, id, false, now); });
}

}  // namespace wattle::gateway
