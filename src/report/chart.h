#pragma once
// The few kinds of plot the page needs, as inline SVG. Colours come from the page's style sheet: class rN is colour N.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace wattle::report {

struct Tick {
  double at;
  std::string label;
};

/// Values from low to high over the plot's extent. Tail: values are shares, drawn at -log10(1 - share), so that 90, 99
/// and 99.9 % are equally far apart.
struct Axis {
  enum class Kind : std::uint8_t { Linear, Log, Tail };
  Kind kind = Kind::Linear;
  double low = 0.0;
  double high = 1.0;
  std::vector<Tick> ticks;
  std::string unit;  ///< for the pointer's read-out; "duration" prints milliseconds in a fitting unit
};

/// Round ticks (1, 2, 5 x 10^n), `high` raised to the last of them.
[[nodiscard]] Axis linear_axis(double low, double high, int ticks, std::string unit);
/// Milliseconds, logarithmic when the range spans a decade.
[[nodiscard]] Axis latency_axis(double low_ms, double high_ms);
[[nodiscard]] Axis tail_axis();
/// Seconds since the run's start, ticks in minutes or hours where that reads better.
[[nodiscard]] Axis time_axis(double end_s);

struct Line {
  std::size_t run = 0;
  std::size_t colour = 0;
  std::vector<std::pair<double, double>> points;  ///< ascending x; a NaN y breaks the line
  std::string end_label;                          ///< drawn right of the plot when not empty, as far as there is room
};

/// An SLO: a vertical line, dashed.
struct Limit {
  double x;
  std::string label;
};

struct LineChart {
  std::string name;  ///< for screen readers
  int width = 380;
  int height = 170;
  Axis x;
  Axis y;
  std::vector<Line> lines;
  std::vector<Limit> limits;
};
[[nodiscard]] std::string svg(const LineChart& chart);

/// A stretch of time in a row, drawn in the style of class `look`.
struct Stretch {
  std::size_t row = 0;
  double from = 0.0;
  double to = 0.0;
  std::string look;
  std::string title;  ///< under the pointer
};
struct RowChart {
  std::string name;
  int width = 1160;
  std::size_t run = 0;
  std::size_t colour = 0;
  Axis x;
  std::vector<std::string> rows;  ///< their names
  std::vector<Stretch> stretches;
};
[[nodiscard]] std::string svg(const RowChart& chart);

struct Bar {
  std::size_t run = 0;
  std::size_t colour = 0;
  std::string label;
  std::vector<double> parts;  ///< one per BarChart::parts
  std::string total;          ///< written after the bar
};
struct BarChart {
  std::string name;
  std::vector<std::string> parts;
  std::string unit;
  std::vector<Bar> bars;
};
[[nodiscard]] std::string svg(const BarChart& chart);

struct Dot {
  std::size_t run = 0;
  std::size_t colour = 0;
  std::string label;
  double x = 0.0;
  double y = 0.0;
};
struct DotChart {
  std::string name;
  Axis x;
  Axis y;
  std::string x_title;
  std::string y_title;
  std::vector<Dot> dots;
};
[[nodiscard]] std::string svg(const DotChart& chart);
/// Those whose names would lie on others', or outside of the plot, and are left out; by x.
[[nodiscard]] std::vector<const Dot*> unnamed(const DotChart& chart);

}  // namespace wattle::report
