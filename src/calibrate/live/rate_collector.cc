#include "calibrate/live/rate_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "net/clock.h"

namespace wattle::calibrate {

namespace {
constexpr std::int64_t kLeastWindowSteps = 6;  ///< in a window
constexpr Span kLastMessages = Span::ms(60);

bool over(const std::future<std::vector<StreamRecord>>& running) {
  return running.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}
}  // namespace

std::optional<Stretch> steps_within(const Lockstep& run, const ClockWindow& window, std::int64_t least) {
  const auto first = std::ranges::lower_bound(run.at, window.begin);
  const auto end = std::ranges::upper_bound(run.at, window.end);
  if (end - first <= least) return std::nullopt;
  Lockstep part;
  part.requests = run.requests;
  part.kv_first = run.kv_first + (first - run.at.begin()) * run.requests;
  part.at.assign(first, end);
  return stretches(part, 1, least).front();
}

Result<std::string> RateCollector::visit(const Cell& cell) {
  const std::vector<StreamPlan> plans(static_cast<std::size_t>(cell.concurrency),
                                      {Span(), cell.prompt_tokens, cell.output_tokens});
  std::atomic<bool> cut{false};
  const Instant sent = net::steady_now();
  auto running = std::async(std::launch::async, [&] { return load_.run(plans, cut); });
  std::vector<ClockWindow> windows;
  Result<void> locked;
  while (locked && !stop_ && !over(running)) {
    ClockWindow window;
    window.clock = options_.clocks[random_.below(options_.clocks.size())];
    locked = hardware_.lock(window.clock, stop_);
    window.begin = net::steady_now();
    const Instant wanted = window.begin + options_.window;
    while (locked && !stop_ && !over(running) && net::steady_now() < wanted) pause(kLook);
    window.end = std::min(net::steady_now(), wanted);
    windows.push_back(window);
  }
  cut = stop_ || !locked;
  const auto records = running.get();
  const Instant ended = net::steady_now();
  if (!locked) return std::unexpected(locked.error());
  if (stop_) return "";
  for (const auto& r : records) {
    if (!r.failure.empty()) return r.failure;
  }
  if (tap_ != nullptr) pause(kLastMessages);
  const auto run = tap_ != nullptr ? tap_->lockstep(sent, ended, cell.concurrency) : find_lockstep(records);
  if (!run) return fmt::format("no step had all {} streams in it", cell.concurrency);
  std::size_t found = 0;
  for (const auto& window : windows) {
    const auto steps = steps_within(*run, window, kLeastWindowSteps);
    if (!steps) continue;
    ++found;
    predict::ProfileRow row;
    row.phase = predict::StepKind::Decode;
    row.clock = window.clock;
    row.requests = run->requests;
    row.kv_tokens = steps->kv_tokens;
    row.steps = steps->steps;
    row.step = steps->step;
    row.power = hardware_.power()->mean_power(steps->begin, steps->end);
    row.reached = hardware_.power()->median_clock(steps->begin, steps->end);
    rows_.push_back(row);
  }
  return found == 0 ? fmt::format("no clock was held for {} steps; shorten --window-s", kLeastWindowSteps)
                    : std::string();
}

}  // namespace wattle::calibrate
