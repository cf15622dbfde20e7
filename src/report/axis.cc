#include <algorithm>
#include <cmath>

#include "report/chart.h"
#include "report/text.h"

namespace wattle::report {
namespace {

double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double m = rough / power;
  return power * (m <= 1.0 ? 1.0 : m <= 2.0 ? 2.0 : m <= 5.0 ? 5.0 : 10.0);
}

}  // namespace

Axis linear_axis(double low, double high, int ticks, std::string unit) {
  Axis axis;
  axis.unit = std::move(unit);
  if (!(high > low)) high = low + 1.0;
  const double step = round_step((high - low) / ticks);
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  axis.low = first * step;
  axis.high = last * step;
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));  // ticks differ in these
  for (double k = first; k <= last + 0.5; k += 1.0) {
    const double at = k * step;
    const int before = at == 0.0 ? 1 : static_cast<int>(std::floor(std::log10(std::abs(at)) + 1e-9)) + 1;
    axis.ticks.push_back({at, number(at, before + decimals)});
  }
  // "20.0" next to "5" suggests different precision: drop trailing zeros.
  for (Tick& tick : axis.ticks) {
    if (tick.label.find('.') == std::string::npos) continue;
    while (tick.label.back() == '0') tick.label.pop_back();
    if (tick.label.back() == '.') tick.label.pop_back();
  }
  return axis;
}

Axis latency_axis(double low_ms, double high_ms) {
  low_ms = std::max(low_ms, 1e-3);
  high_ms = std::max(high_ms, low_ms * 1.01);
  const auto strip = [](double ms) {
    if (ms == 0.0) return std::string("0");
    const double v = ms < 1.0 ? ms * 1e3 : ms < 1000.0 ? ms : ms * 1e-3;
    std::string s = number(v, 3);
    if (s.find('.') != std::string::npos) {
      while (s.back() == '0') s.pop_back();
      if (s.back() == '.') s.pop_back();
    }
    return s + (ms < 1.0 ? "\u202fµs" : ms < 1000.0 ? "\u202fms" : "\u202fs");
  };
  Axis axis;
  if (high_ms / low_ms < 8.0) {
    axis = linear_axis(low_ms, high_ms, 5, "duration");
    for (Tick& tick : axis.ticks) tick.label = strip(tick.at);
    return axis;
  }
  axis.kind = Axis::Kind::Log;
  axis.unit = "duration";
  axis.low = low_ms;
  axis.high = high_ms;
  const double decades = std::log10(high_ms / low_ms);
  for (double e = std::floor(std::log10(low_ms)); e <= std::log10(high_ms); e += 1.0) {
    for (const double m : {1.0, 2.0, 5.0}) {
      if (decades > 3.2 && m != 1.0) continue;
      const double at = m * std::pow(10.0, e);
      if (at >= low_ms * 0.999 && at <= high_ms * 1.001) axis.ticks.push_back({at, strip(at)});
    }
  }
  return axis;
}

Axis tail_axis() {
  Axis axis;
  axis.kind = Axis::Kind::Tail;
  axis.low = 0.0;
  axis.high = 0.9995;
  axis.unit = "share";
  axis.ticks = {{0.0, "0\u202f%"}, {0.5, "50\u202f%"}, {0.9, "90\u202f%"}, {0.99, "99\u202f%"}, {0.999, "99.9\u202f%"}};
  return axis;
}

Axis time_axis(double end_s) {
  end_s = std::max(end_s, 1e-3);
  const double unit = end_s > 3.0 * 3600.0 ? 3600.0 : end_s > 180.0 ? 60.0 : 1.0;
  const char* name = unit == 3600.0 ? "h" : unit == 60.0 ? "min" : "s";
  Axis axis = linear_axis(0.0, end_s / unit, 6, "s");
  for (Tick& tick : axis.ticks) {
    tick.at *= unit;
    tick.label += std::string("\u202f") + name;
  }
  axis.low = 0.0;
  axis.high = end_s;
  std::erase_if(axis.ticks, [&](const Tick& tick) { return tick.at > end_s * 1.0001; });
  return axis;
}

}  // namespace wattle::report
