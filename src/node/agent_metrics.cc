#include "node/agent_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

namespace wattle::node {

namespace {

/// HELP texts, by metric name without "wattle_agent_". A test finds metrics without a line here.
constexpr std::pair<std::string_view, std::string_view> kHelp[] = {
    {"reports_total", "Step reports taken"},
    {"reports_missed_total", "Sequence numbers skipped"},
    {"reports_duplicate_total", "Step reports dropped: seen before"},
    {"reports_late_total", "Step reports dropped: out of order"},
    {"engine_restarts_total", "Times an engine began to count its steps from 0 again"},
    {"telemetry_lost_total", "Times an engine fell silent in the middle of its work"},
    {"telemetry_silent_total", "1: no report ever came, so the clock is that of lost telemetry"},
    {"commanded_clock_mhz", "Newest clock commanded"},
    {"decode_requests", "Requests in decode, as last reported"},
    {"waiting_requests", "Requests that wait in the engine, as last reported"},
    {"overruns_total", "Steps that outlasted their belief, after which the clock was raised"},
    {"predictor_disbelieved_total", "Steps at which the predictor was left aside"},
    {"predictor_samples_total", "Measured steps a learning predictor was given"},
    {"predictor_samples_ignored_total", "Of these: mixed steps, or durations not to be believed"},
    {"predictor_refits_total", "Fits begun"},
    {"predictor_adopted_total", "Fits put into use"},
    {"predictor_rejected_total", "Fits worse than the model in use on the newest window"},
    {"predictor_failed_total", "Fits no model came of"},
    {"predictor_rolled_back_total", "Fits adopted and then found worse than their predecessor"},
    {"predictor_offline_mae_seconds", "Mean absolute error over the newest window, of the model fitted offline"},
    {"predictor_mae_seconds", "Mean absolute error over the newest window, of the model in use"},
    {"predictor_drift_ratio", "How far the newest window's error is off the one that the model was adopted with"},
    {"reports_dropped_total", "Telemetry that could not be read or attributed, by reason"},
    {"other_gpus", "GPUs that cannot be locked up to the highest clock of their configured kind"},
    {"report_to_command_seconds", "From a step report to the clock it calls for"},
    {"applied_clock_mhz", "Newest clock lock the driver has accepted; 0: none"},
    {"gpu_controlled", "1 while the GPU's clock is under control"},
    {"gpu_read_only", "1 where clocks cannot be set (clock_set_failures_total says why), or the GPU is partitioned"},
    {"gpu_power_cap_watts", "Power limit set in place of a clock lock that the GPU does not take; 0: none"},
    {"gpu_gone", "1 while the driver has lost the GPU"},
    {"commands_total", "Clock commands received"},
    {"commands_same_total", "Of these: that clock was on its way or there already"},
    {"commands_coalesced_total", "Of these: overtaken by a newer one before the driver was called"},
    {"clock_sets_total", "Driver calls that lock clocks"},
    {"clock_set_retries_total", "Driver calls made again after a transient failure"},
    {"clock_sets_put_off_total", "Locks put off because their release could not be provided for"},
    {"clock_set_failures_total", "Driver calls that failed, by class of failure"},
    {"clock_clamped_total", "Commands outside the GPU's range, by direction"},
    {"driver_call_seconds", "Duration of a driver call"},
    {"command_to_applied_seconds", "From a command to the lock that the driver accepted"},
    {"report_to_applied_seconds", "From what caused a command to the lock that the driver accepted"},
    {"report_to_applied_own_over_1ms_total", "Of these: over 1 ms without the driver's call"},
    {"report_to_applied_own_seconds", "The same without the driver's call"},
    {"node_report_to_applied_own_seconds", "The same, of all GPUs together"},
    {"report_to_applied_cpu_over_1ms_total", "Of these: over 1 ms of our threads' CPU time"},
    {"report_to_applied_cpu_seconds", "CPU time of our threads on that way"},
    {"gpu_energy_joules_total", "Energy since the agent's start"},
    {"gpu_power_watts", "Power at the newest reading; no sample where that failed"},
    {"gpu_clock_mhz", "SM clock at the newest reading; no sample where that failed"},
    {"gpu_read_failures_total", "Meter readings that failed"},
    {"gpu_counter_resets_total", "Times the energy counter went backwards"},
    {"host_energy_joules_total",
     "Energy of the host's processors and memory since the agent's start, by RAPL's domains"},
    {"host_power_watts", "Mean power of the last second, by RAPL's domains; none: it cannot be read"},
    {"restored_at_start_total", "GPUs that a dead agent had left locked and that were released"},
    {"advisory", "1 where clocks are decided and written down, and none is set"},
    {"clock_mismatches_total",
     "Times a GPU ran at another clock than the locked one without a throttle reason; locked again"},
    {"second_writer", "1 while another process sets the GPU's clock, too: three mismatches within a minute"},
    {"watt_budget_watts", "Power budget of all GPUs together; 0: none"},
    {"watt_budget_drawn_watts", "Mean power of all GPUs in the last period; 0: no budget"},
    {"watt_budget_level", "2: no ceiling; from 1 down to 0 the share of its clocks that each GPU is allowed"},
    {"watt_budget_over_total", "Periods in which they drew more than the budget"},
    {"watt_budget_blind_total", "Readings of power that failed, and were taken to be as before, then the highest"},
    {"watt_budget_unreachable", "1 where they draw more than the budget at their lowest clocks"},
    {"clock_ceiling_mhz", "Highest clock that the watt budget leaves the GPU; 0: any"},
    {"state_write_failures_total", "Writes of the state file that failed"},
    {"guardian_restarts_total", "Times the guardian was started again"},
    {"clock_leases_total", "Clocks taken under a lease"},
    {"clock_leases_expired_total", "Leases that ended without renewal: the fallback clock was commanded"},
    {"log_dropped_total", "Log lines lost because stderr was not read, or not fast enough"},
    {"ready", "1 while the agent decides and reads its meters, and no driver call hangs"},
};

/// Collects the samples of one metric after its HELP and TYPE lines.
class Text {
 public:
  void metric(const char* name, const char* type) {
    name_ = name;
    const auto help = std::ranges::find(kHelp, std::string_view(name).substr(std::string_view("wattle_agent_").size()),
                                        &std::pair<std::string_view, std::string_view>::first);
    if (help != std::end(kHelp)) fmt::format_to(std::back_inserter(out_), "# HELP {} {}\n", name, help->second);
    fmt::format_to(std::back_inserter(out_), "# TYPE {} {}\n", name, type);
  }
  template <typename T>
  void sample(const std::string& labels, T value) {
    fmt::format_to(std::back_inserter(out_), "{}{} {}\n", name_, labels.empty() ? "" : "{" + labels + "}", value);
  }
  /// Nanoseconds as a summary in seconds.
  void summary(const std::string& labels, const Histogram& ns) {
    const std::string comma = labels.empty() ? "" : ",";
    for (const double q : {0.5, 0.9, 0.99}) {
      sample(fmt::format("{}{}quantile=\"{}\"", labels, comma, q), static_cast<double>(ns.quantile(q)) * 1e-9);
    }
    const std::string braces = labels.empty() ? "" : "{" + labels + "}";
    fmt::format_to(std::back_inserter(out_), "{0}_sum{1} {2}\n{0}_count{1} {3}\n", name_, braces,
                   ns.mean() * static_cast<double>(ns.count()) * 1e-9, ns.count());
  }
  /// A histogram of nanoseconds, exported in seconds; cumulative, so that two scrapes can be subtracted.
  void buckets(const Histogram& ns) {
    constexpr std::array kBounds_us{10,  20,  50,    100,   200,   300,    400,    500,
                                    600, 800, 1'000, 2'000, 5'000, 20'000, 100'000};
    for (const int bound : kBounds_us) {
      std::int64_t within = 0;
      ns.for_each_cumulative([&](std::int64_t upper, std::int64_t seen) {
        if (upper <= bound * 1'000) within = seen;
      });
      fmt::format_to(std::back_inserter(out_), "{}_bucket{{le=\"{}\"}} {}\n", name_, bound * 1e-6, within);
    }
    fmt::format_to(std::back_inserter(out_), "{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name_,
                   ns.count(), ns.mean() * static_cast<double>(ns.count()) * 1e-9);
  }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::string out_;
  const char* name_ = "";
};

std::string instance_label(InstanceId id) { return fmt::format("instance=\"{}\"", id.value()); }
std::string gpu_label(const std::string& uuid) { return fmt::format("gpu=\"{}\"", uuid); }

void predictor_metrics(Text& t, const std::vector<AgentMetrics::Predictor>& predictors) {
  using Counts = predict::OnlineCounts;
  const auto count = [&](const char* name, std::int64_t Counts::*value) {
    t.metric(name, "counter");
    for (std::size_t i = 0; i < predictors.size(); ++i) {
      t.sample(fmt::format("predictor=\"{}\"", i), predictors[i].counts.*value);
    }
  };
  count("wattle_agent_predictor_samples_total", &Counts::samples);
  count("wattle_agent_predictor_samples_ignored_total", &Counts::ignored);
  count("wattle_agent_predictor_refits_total", &Counts::refits);
  count("wattle_agent_predictor_adopted_total", &Counts::adopted);
  count("wattle_agent_predictor_rejected_total", &Counts::rejected);
  count("wattle_agent_predictor_failed_total", &Counts::failed);
  count("wattle_agent_predictor_rolled_back_total", &Counts::rolled_back);
  const auto error = [&](const char* name, auto&& value) {
    t.metric(name, "gauge");
    for (std::size_t i = 0; i < predictors.size(); ++i) {
      for (const std::size_t phase : {0U, 1U}) {
        t.sample(fmt::format("predictor=\"{}\",phase=\"{}\"", i, phase == 0 ? "prefill" : "decode"),
                 value(predictors[i].errors[phase]));
      }
    }
  };
  // Over the newest window: of the model fitted offline, and of the one in use.
  error("wattle_agent_predictor_offline_mae_seconds",
        [](const predict::OnlineError& e) { return 1e-3 * e.offline_ms; });
  error("wattle_agent_predictor_mae_seconds", [](const predict::OnlineError& e) { return 1e-3 * e.active_ms; });
  error("wattle_agent_predictor_drift_ratio", [](const predict::OnlineError& e) { return e.drift; });
}

void metered(Text& t, const std::vector<AgentMetrics::MeteredGpu>& gpus, const std::vector<HostMeter::Domain>& host) {
  using MeteredGpu = AgentMetrics::MeteredGpu;
  const auto per_gpu = [&](const char* name, const char* type, auto&& value) {
    t.metric(name, type);
    for (const auto& g : gpus) t.sample(gpu_label(g.uuid) + "," + instance_label(g.instance), value(g));
  };
  per_gpu("wattle_agent_gpu_energy_joules_total", "counter", [](const MeteredGpu& g) { return g.energy.value(); });
  const auto newest = [&](const char* name, auto&& value) {
    t.metric(name, "gauge");
    for (const auto& g : gpus) {
      if (g.read) t.sample(gpu_label(g.uuid) + "," + instance_label(g.instance), value(g));
    }
  };
  newest("wattle_agent_gpu_power_watts", [](const MeteredGpu& g) { return to_watts(g.power).value(); });
  newest("wattle_agent_gpu_clock_mhz", [](const MeteredGpu& g) { return g.clock.value(); });
  per_gpu("wattle_agent_gpu_read_failures_total", "counter", [](const MeteredGpu& g) { return g.read_failures; });
  per_gpu("wattle_agent_gpu_counter_resets_total", "counter", [](const MeteredGpu& g) { return g.counter_resets; });

  const auto per_domain = [&](const char* name, const char* type, auto&& value) {
    if (host.empty()) return;
    t.metric(name, type);
    for (const auto& d : host) t.sample(fmt::format("domain=\"{}\"", d.name), value(d));
  };
  per_domain("wattle_agent_host_energy_joules_total", "counter",
             [](const HostMeter::Domain& d) { return d.energy.joules().value(); });
  per_domain("wattle_agent_host_power_watts", "gauge",
             [](const HostMeter::Domain& d) { return to_watts(d.power).value(); });
}

void budget_metrics(Text& t, const Agent::Budget& budget) {
  const auto one = [&](const char* name, const char* type, double value) {
    t.metric(name, type);
    t.sample("", value);
  };
  one("wattle_agent_watt_budget_watts", "gauge", to_watts(budget.watts.value_or(Milliwatts())).value());
  one("wattle_agent_watt_budget_drawn_watts", "gauge", budget.watts ? to_watts(budget.drawn).value() : 0.0);
  one("wattle_agent_watt_budget_level", "gauge", budget.level);
  one("wattle_agent_watt_budget_over_total", "counter", static_cast<double>(budget.over));
  one("wattle_agent_watt_budget_blind_total", "counter", static_cast<double>(budget.blind));
  one("wattle_agent_watt_budget_unreachable", "gauge",
      budget.state == policy::WattBudget::State::Unreachable ? 1.0 : 0.0);
  t.metric("wattle_agent_clock_ceiling_mhz", "gauge");
  for (const auto& [uuid, ceiling] : budget.ceilings) t.sample(gpu_label(uuid), ceiling.value());
}

}  // namespace

std::string AgentMetrics::text() const {
  Text t;
  const auto per_instance = [&](const char* name, const char* type, auto&& value) {
    t.metric(name, type);
    for (const auto& i : instances) t.sample(instance_label(i.view.id), value(i));
  };
  per_instance("wattle_agent_reports_total", "counter", [](const Instance& i) { return i.counts.accepted; });
  per_instance("wattle_agent_reports_missed_total", "counter", [](const Instance& i) { return i.counts.missed; });
  per_instance("wattle_agent_reports_duplicate_total", "counter",
               [](const Instance& i) { return i.counts.duplicates; });
  per_instance("wattle_agent_reports_late_total", "counter", [](const Instance& i) { return i.counts.late; });
  per_instance("wattle_agent_engine_restarts_total", "counter", [](const Instance& i) { return i.counts.restarts; });
  per_instance("wattle_agent_telemetry_lost_total", "counter", [](const Instance& i) { return i.counts.losses; });
  per_instance("wattle_agent_telemetry_silent_total", "counter", [](const Instance& i) { return i.counts.silent; });
  per_instance("wattle_agent_commanded_clock_mhz", "gauge",
               [](const Instance& i) { return i.view.clock_commanded.value(); });
  per_instance("wattle_agent_decode_requests", "gauge",
               [](const Instance& i) { return i.view.step.shape.decode_requests; });
  per_instance("wattle_agent_waiting_requests", "gauge",
               [](const Instance& i) { return i.view.step.waiting_requests; });
  per_instance("wattle_agent_overruns_total", "counter", [](const Instance& i) { return i.overruns; });
  per_instance("wattle_agent_predictor_disbelieved_total", "counter", [](const Instance& i) { return i.disbelieved; });
  predictor_metrics(t, predictors);
  t.metric("wattle_agent_reports_dropped_total", "counter");
  t.sample("reason=\"bad_frames\"", drops.bad_frames);
  t.sample("reason=\"truncated\"", drops.truncated);
  t.sample("reason=\"wrong_shape\"", drops.wrong_shape);
  t.sample("reason=\"other_version\"", drops.other_version);
  t.sample("reason=\"out_of_range\"", drops.out_of_range);
  t.sample("reason=\"unknown_instance\"", unknown_instance);
  t.metric("wattle_agent_report_to_command_seconds", "summary");
  t.summary("", report_to_command_ns);

  const auto per_actuator = [&](const char* name, const char* type, auto&& value) {
    t.metric(name, type);
    for (const auto& a : actuators) t.sample(gpu_label(a.uuid), value(a));
  };
  per_actuator("wattle_agent_applied_clock_mhz", "gauge", [](const ActuatorStats& a) { return a.applied.value(); });
  per_actuator("wattle_agent_gpu_controlled", "gauge",
               [](const ActuatorStats& a) { return a.state == GpuState::Controlled ? 1 : 0; });
  per_actuator("wattle_agent_gpu_read_only", "gauge",
               [](const ActuatorStats& a) { return a.state == GpuState::ReadOnly ? 1 : 0; });
  per_actuator("wattle_agent_gpu_power_cap_watts", "gauge",
               [](const ActuatorStats& a) { return to_watts(a.power_cap).value(); });
  per_actuator("wattle_agent_gpu_gone", "gauge",
               [](const ActuatorStats& a) { return a.state == GpuState::Gone ? 1 : 0; });
  per_actuator("wattle_agent_clock_mismatches_total", "counter", [](const ActuatorStats& a) { return a.mismatches; });
  per_actuator("wattle_agent_second_writer", "gauge", [](const ActuatorStats& a) { return a.second_writer ? 1 : 0; });
  per_actuator("wattle_agent_commands_total", "counter", [](const ActuatorStats& a) { return a.commands; });
  per_actuator("wattle_agent_commands_same_total", "counter", [](const ActuatorStats& a) { return a.same; });
  per_actuator("wattle_agent_commands_coalesced_total", "counter", [](const ActuatorStats& a) { return a.coalesced; });
  per_actuator("wattle_agent_clock_sets_total", "counter", [](const ActuatorStats& a) { return a.calls; });
  per_actuator("wattle_agent_clock_set_retries_total", "counter", [](const ActuatorStats& a) { return a.retries; });
  per_actuator("wattle_agent_clock_sets_put_off_total", "counter", [](const ActuatorStats& a) { return a.unprovided; });
  t.metric("wattle_agent_clock_set_failures_total", "counter");
  for (const auto& a : actuators) {
    for (std::size_t i = 1; i < a.failures.size(); ++i) {
      t.sample(gpu_label(a.uuid) + fmt::format(",class=\"{}\"", name_of(static_cast<GpuStatus>(i))), a.failures[i]);
    }
  }
  t.metric("wattle_agent_clock_clamped_total", "counter");
  for (const auto& a : actuators) {
    t.sample(gpu_label(a.uuid) + ",direction=\"up\"", a.clamped_up);
    t.sample(gpu_label(a.uuid) + ",direction=\"down\"", a.clamped_down);
  }
  t.metric("wattle_agent_driver_call_seconds", "summary");
  for (const auto& a : actuators) t.summary(gpu_label(a.uuid), a.call_ns);
  t.metric("wattle_agent_command_to_applied_seconds", "summary");
  for (const auto& a : actuators) t.summary(gpu_label(a.uuid), a.command_to_applied_ns);
  t.metric("wattle_agent_report_to_applied_seconds", "summary");
  for (const auto& a : actuators) t.summary(gpu_label(a.uuid), a.report_to_applied_ns);
  per_actuator("wattle_agent_report_to_applied_own_over_1ms_total", "counter",
               [](const ActuatorStats& a) { return a.own_over_target; });
  t.metric("wattle_agent_report_to_applied_own_seconds", "summary");  // the driver's call left out
  for (const auto& a : actuators) t.summary(gpu_label(a.uuid), a.report_to_applied_own_ns);
  Histogram own;
  for (const auto& a : actuators) own.merge(a.report_to_applied_own_ns);
  t.metric("wattle_agent_node_report_to_applied_own_seconds", "histogram");
  t.buckets(own);
  per_actuator("wattle_agent_report_to_applied_cpu_over_1ms_total", "counter",
               [](const ActuatorStats& a) { return a.cpu_over_target; });
  t.metric("wattle_agent_report_to_applied_cpu_seconds", "summary");  // CPU time of our threads, report to driver call
  for (const auto& a : actuators) t.summary(gpu_label(a.uuid), a.report_to_applied_cpu_ns);
  metered(t, gpus, host);
  budget_metrics(t, budget);
  const auto one = [&](const char* name, const char* type, std::int64_t value) {
    t.metric(name, type);
    t.sample("", value);
  };
  one("wattle_agent_restored_at_start_total", "counter", keeper.restored_at_start);
  one("wattle_agent_advisory", "gauge", advisory ? 1 : 0);
  one("wattle_agent_state_write_failures_total", "counter", keeper.persist_failures);
  one("wattle_agent_guardian_restarts_total", "counter", keeper.guardian_restarts);
  one("wattle_agent_clock_leases_total", "counter", leases.granted);
  one("wattle_agent_clock_leases_expired_total", "counter", leases.expired);
  one("wattle_agent_other_gpus", "gauge", other_gpus);
  one("wattle_agent_log_dropped_total", "counter", log_dropped);
  one("wattle_agent_ready", "gauge", ready ? 1 : 0);
  return t.take();
}

}  // namespace wattle::node
