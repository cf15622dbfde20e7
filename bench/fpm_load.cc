// Many engines' forward-pass metrics without the engines: N publishers, each at a steady rate, for bench/agent_load.py.
#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "net/clock.h"
#include "telemetry/fpm_socket.h"

namespace {

using namespace wattle;

/// A decode batch that drifts, so that the agent has clocks to change, offset from engine to engine.
StepReport step(std::size_t engine, std::int64_t i) {
  StepReport report;
  report.sequence = i;
  report.start = net::steady_now();
  report.shape.decode_requests = 40 + static_cast<std::int32_t>((static_cast<std::int64_t>(engine) * 7 + i / 25) % 200);
  report.shape.decode_kv_tokens = report.shape.decode_requests * 600;
  report.kv_tokens = report.shape.decode_kv_tokens;
  report.waiting_requests = i % 200 < 4 ? 3 : 0;  // now and then a queue: highest clock at once
  return report;
}

}  // namespace

/// fpm_load ENGINES RATE: prints the endpoints, one a line, then obeys lines on stdin: `warm` publishes one idle report
/// each, a number publishes that many steps each at RATE/s and prints how late the last one was; ends with the input.
int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto number = [](const char* text) {
    std::int64_t value = 0;
    std::from_chars(text, text + std::char_traits<char>::length(text), value);
    return value;
  };
  const auto engines = static_cast<std::size_t>(number(argv[1]));
  const std::int64_t rate = number(argv[2]);
  if (engines == 0 || rate <= 0) return 2;
  std::vector<telemetry::FpmPublisher> publishers;
  for (std::size_t e = 0; e < engines; ++e) {
    auto bound = telemetry::FpmPublisher::bind("tcp://127.0.0.1:*", fmt::format("engine-{}", e));
    if (!bound) {
      fmt::print(stderr, "fpm_load: {}\n", bound.error().message());
      return 3;
    }
    fmt::print("{}\n", bound->endpoint());
    publishers.push_back(std::move(*bound));
  }
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "warm") {
      for (auto& publisher : publishers) publisher.publish(StepReport{}, net::steady_now());
      continue;
    }
    const std::int64_t steps = number(line.c_str());
    const auto begin = std::chrono::steady_clock::now();
    const std::chrono::nanoseconds period(1'000'000'000 / rate);
    double late_ms = 0.0;
    for (std::int64_t i = 0; i < steps; ++i) {
      // Engines keep no common time: each has its own place in the period.
      for (std::size_t e = 0; e < engines; ++e) {
        const auto due =
            begin + i * period + period * static_cast<std::int64_t>(e) / static_cast<std::int64_t>(engines);
        std::this_thread::sleep_until(due);
        late_ms = std::max(late_ms,
                           std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - due).count());
        publishers[e].publish(step(e, i), net::steady_now());
      }
    }
    fmt::print("{:.3f}\n", late_ms);
    std::fflush(stdout);
  }
  return 0;
}
