// FREESH's Figure 16: four minutes of MIAD's clock on one worker under different loads.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "reproduce/freesh_runs.h"

namespace wattle::reproduce::freesh {

namespace {

constexpr double kLead_s = 60.0;  ///< simulated before the plotted minutes, so that the clock has left its maximum
constexpr double kMinute_s = 60.0;
constexpr double kFloor_mhz = 300.0, kTop_mhz = 1410.0;

/// Requests per second from `begin` to `end`, seconds of the minute shown.
struct Stretch {
  double begin, end, per_s;
};

struct Case {
  const char* name;
  const char* what;
  std::vector<Stretch> load;
};

/// The paper shows its four cases without numbers. `busy` is three quarters of its rating of such a worker.
std::vector<Case> cases() {
  constexpr double kBusy = 0.75 * 20.25, kLow = 0.1;
  return {
      {"idle_then_burst", "mostly idle, a short burst", {{-kLead_s, 20, 0.0}, {20, 30, kBusy}, {30, 60, 0.0}}},
      {"busy_then_idle", "mostly busy, a short idle window", {{-kLead_s, 25, kBusy}, {25, 40, 0.0}, {40, 60, kBusy}}},
      {"busy", "continuously busy", {{-kLead_s, 60, kBusy}}},
      {"idle", "idle with sporadic requests", {{-kLead_s, 60, kLow}}}};
}

std::vector<workload::TraceRow> requests(const Case& of) {
  RandomStream random(1, std::string("freesh.snapshot.") + of.name);
  std::vector<workload::TraceRow> rows;
  for (const Stretch& stretch : of.load) {
    for (double at = stretch.begin; stretch.per_s > 0.0;) {
      at += random.exponential() / stretch.per_s;
      if (at >= stretch.end) break;
      const auto answer = static_cast<std::int32_t>(std::lround(79.0 * std::exp(0.5 * random.normal())));
      rows.push_back({Instant() + Span::from_seconds(at + kLead_s), 10, std::clamp(answer, 1, 231)});
    }
  }
  rows.push_back({Instant() + Span::from_seconds(kLead_s + kMinute_s + 5.0), 10, 1});  // or the run would end earlier
  return rows;
}

/// The clock that holds at each second of the minute.
std::vector<double> seconds_of(const std::vector<std::pair<double, double>>& changes) {
  std::vector<double> clock;
  for (int s = 0; s < static_cast<int>(kMinute_s); ++s) {
    const auto after = std::ranges::upper_bound(changes, s + kLead_s, {}, &std::pair<double, double>::first);
    clock.push_back(after == changes.begin() ? kTop_mhz : std::prev(after)->second);
  }
  return clock;
}

double mean(const std::vector<double>& clock, int from, int to) {
  double sum = 0.0;
  for (int s = from; s < to; ++s) sum += clock[static_cast<std::size_t>(s)];
  return sum / (to - from);
}

void judge(Section& section, const Case& of, const std::vector<double>& clock) {
  const std::string name = of.name;
  const auto highest = [&](int from, int to) { return *std::max_element(clock.begin() + from, clock.begin() + to); };
  const auto lowest = [&](int from, int to) { return *std::min_element(clock.begin() + from, clock.begin() + to); };
  const auto target = [&](const char* what, const char* wanted, double value, bool met) {
    section.targets.push_back({name + ": " + what, wanted, value, met});
  };
  add(section, name + "/clock_mean", "MHz", std::nullopt, mean(clock, 0, 60));
  add(section, name + "/clock_lowest", "MHz", std::nullopt, lowest(0, 60));
  add(section, name + "/clock_highest", "MHz", std::nullopt, highest(0, 60));
  if (name == "idle_then_burst") {
    target("at the floor before the burst", "300 to 315 MHz", clock[19], clock[19] <= kFloor_mhz + 15.0);
    target("raised in the burst", "at least doubled", highest(20, 32), highest(20, 32) >= 2.0 * kFloor_mhz);
    target("back at the floor after it", "300 to 315 MHz", clock[59], clock[59] <= kFloor_mhz + 15.0);
  } else if (name == "busy_then_idle") {
    target("falls in the idle window", "lower at its end than at its beginning", clock[39] - clock[26],
           clock[39] < clock[26]);
    target("rises as load returns", "above the window's end", highest(40, 60), highest(40, 60) > clock[39]);
  } else if (name == "busy") {
    target("never at the floor", "above 315 MHz", lowest(0, 60), lowest(0, 60) > kFloor_mhz + 15.0);
  } else {
    const auto at_floor = std::ranges::count_if(clock, [](double mhz) { return mhz <= kFloor_mhz + 15.0; });
    target("at the floor most of the time", "more than 30 of 60 s", static_cast<double>(at_floor), at_floor > 30);
  }
}

}  // namespace

Result<Section> snapshots() {
  Section section;
  section.source = "Figure 16";
  section.note =
      "Simulated: a TP2 worker of A100-80G with Llama3-70B, short prompts and answers, MIAD (2, 100 MHz, every second) "
      "with the limits of type SS. The paper draws four minutes without saying what load they have: idle is nothing, "
      "sporadic a request every 10 s, busy 75 % of the worker's released rating. The clock as it is commanded.";
  const std::string scenario =
      "name = \"freesh-snapshot\"\nllm = \"llama-3-70b\"\n[workload]\nrequests = 1\n[engine]\n"
      "gpu_memory_utilization = 0.96\nactivation_gb_per_gpu = 1\n[slo]\nttft_ms = 300\ntbt_ms = 150\ne2e_ms = 7000\n"
      "[[fleet]]\ngpu = \"a100-80g\"\ntensor_parallel = 2\n";
  for (const Case& of : cases()) {
    const auto clock = run_clocks(scenario, "miad", {"frequency.mean_gap_ms=[88]"}, requests(of));
    if (!clock) return std::unexpected(clock.error());
    const auto seconds = seconds_of(*clock);
    judge(section, of, seconds);
    Plot plot{fmt::format("{}: MIAD's clock", of.what), "s", "MHz", {{"clock", {}}}};
    for (std::size_t s = 0; s < seconds.size(); ++s) {
      plot.lines[0].points.emplace_back(static_cast<double>(s), seconds[s]);
    }
    section.plots.push_back(std::move(plot));
  }
  return section;
}

}  // namespace wattle::reproduce::freesh
