#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "report/text.h"

namespace wattle::report {
namespace {

double transformed(Axis::Kind kind, double v) {
  switch (kind) {
    case Axis::Kind::Log:
      return std::log10(std::max(v, 1e-12));
    case Axis::Kind::Tail:
      return -std::log10(std::max(1.0 - v, 1e-6));
    case Axis::Kind::Linear:
      break;
  }
  return v;
}

/// Value -> pixel. Values outside the axis are drawn at its ends.
class Scale {
 public:
  Scale(const Axis& axis, double from, double to)
      : kind_(axis.kind),
        low_(transformed(kind_, axis.low)),
        high_(transformed(kind_, axis.high)),
        from_(from),
        to_(to) {}
  [[nodiscard]] double operator()(double v) const {
    const double share = std::clamp((transformed(kind_, v) - low_) / (high_ - low_), 0.0, 1.0);
    return from_ + share * (to_ - from_);
  }
  /// For the page's script: pixels, transformed values, kind.
  [[nodiscard]] std::string data(const std::string& unit) const {
    const char* kind = kind_ == Axis::Kind::Log ? "log" : kind_ == Axis::Kind::Tail ? "tail" : "linear";
    return fmt::format("{:.1f},{:.1f},{:.6g},{:.6g},{},{}", from_, to_, low_, high_, kind, unit);
  }

 private:
  Axis::Kind kind_;
  double low_;
  double high_;
  double from_;
  double to_;
};

void append_pixel(std::string& out, double v) {
  const auto tenths = std::llround(v * 10.0);
  fmt::format_to(std::back_inserter(out), "{}", tenths / 10);
  if (tenths % 10 != 0) fmt::format_to(std::back_inserter(out), ".{}", std::abs(tenths % 10));
}

/// One polyline per unbroken stretch; points in the middle of a level run are left out.
void append_line(std::string& out, const Line& line, const Scale& x, const Scale& y) {
  std::vector<std::pair<double, double>> pixels;
  const auto flush = [&] {
    if (pixels.size() == 1) pixels.push_back(pixels.front());
    if (pixels.empty()) return;
    fmt::format_to(std::back_inserter(out), "<polyline class=\"line r{}\" data-r=\"{}\" points=\"", line.colour,
                   line.run);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const auto level = [&](std::size_t k) { return std::abs(pixels[k].second - pixels[i].second) < 0.05; };
      if (i > 0 && i + 1 < pixels.size() && level(i - 1) && level(i + 1)) continue;
      if (i > 0) out.push_back(' ');
      append_pixel(out, pixels[i].first);
      out.push_back(',');
      append_pixel(out, pixels[i].second);
    }
    out += "\"/>";
    pixels.clear();
  };
  for (const auto& [vx, vy] : line.points) {
    if (std::isnan(vy)) {
      flush();
    } else {
      pixels.emplace_back(x(vx), y(vy));
    }
  }
  flush();
}

std::string open_svg(int width, int height, const std::string& name, const std::string& data) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"{}>", width, height, escape(name), data);
}

void append_axes(std::string& out, const Axis& ax, const Axis& ay, const Scale& x, const Scale& y, double left,
                 double right, double bottom) {
  for (const Tick& tick : ay.ticks) {
    const double py = y(tick.at);
    fmt::format_to(std::back_inserter(out),
                   "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                   "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                   left, right, py, py, left - 6, py + 3.5, escape(tick.label));
  }
  for (const Tick& tick : ax.ticks) {
    const double px = x(tick.at);
    // A label at the very edge would be cut off by the picture's border.
    const char* anchor = px > right - 14 ? "end" : "middle";
    fmt::format_to(std::back_inserter(out),
                   "<line class=\"stub\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                   "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
                   px, px, bottom, bottom + 4, px, bottom + 16, anchor, escape(tick.label));
  }
  fmt::format_to(std::back_inserter(out),
                 "<line class=\"base\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", left, right, bottom,
                 bottom);
}

/// Labels right of the plot, pushed apart so that none covers another.
void append_end_labels(std::string& out, const LineChart& chart, const Scale& y, double right, double top,
                       double bottom) {
  struct Label {
    double at;
    const Line* line;
  };
  constexpr double kPitch = 14.0;
  std::vector<Label> labels;
  for (const Line& line : chart.lines) {
    if (line.end_label.empty()) continue;
    const auto last =
        std::find_if(line.points.rbegin(), line.points.rend(), [](const auto& p) { return !std::isnan(p.second); });
    if (last != line.points.rend()) labels.push_back({y(last->second), &line});
  }
  const auto room = static_cast<std::size_t>(std::max(1.0, (bottom - top) / kPitch));
  if (labels.size() > room) {
    fmt::format_to(std::back_inserter(out),
                   "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\">{} more: point at a line</text>", right + 8,
                   bottom + 8.0, labels.size() - room);
    labels.resize(room);  // in the lines' order, the baseline's first
    bottom -= kPitch;
  }
  std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.at < b.at; });
  double next = top;
  for (Label& label : labels) next = (label.at = std::max(label.at, next)) + kPitch;
  next = bottom + 4.0;
  for (auto it = labels.rbegin(); it != labels.rend(); ++it) next = (it->at = std::min(it->at, next)) - kPitch;
  for (const Label& label : labels) {
    fmt::format_to(std::back_inserter(out), "<text class=\"end r{}\" data-r=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                   label.line->colour, label.line->run, right + 8, label.at + 4, escape(label.line->end_label));
  }
}

}  // namespace

std::string svg(const LineChart& chart) {
  const bool labelled =
      std::any_of(chart.lines.begin(), chart.lines.end(), [](const Line& l) { return !l.end_label.empty(); });
  const double left = chart.y.kind == Axis::Kind::Tail ? 48 : 44;
  std::size_t letters = 0;
  for (const Line& l : chart.lines) letters = std::max(letters, l.end_label.size());
  // About 6.6 px a letter at this size.
  const double right = chart.width - (labelled ? std::max(190.0, 6.6 * static_cast<double>(letters) + 12.0) : 12.0);
  const double top = chart.limits.empty() ? 10 : 22;
  const double bottom = chart.height - 24.0;
  const Scale x(chart.x, left, right);
  const Scale y(chart.y, bottom, top);
  std::string out = open_svg(chart.width, chart.height, chart.name,
                             fmt::format(" class=\"chart\" data-x=\"{}\" data-y=\"{}\"", escape(x.data(chart.x.unit)),
                                         escape(y.data(chart.y.unit))));
  append_axes(out, chart.x, chart.y, x, y, left, right, bottom);
  for (const Limit& limit : chart.limits) {
    const double px = x(limit.x);
    const char* anchor = px > right - 60 ? "end" : px < left + 60 ? "start" : "middle";
    fmt::format_to(std::back_inserter(out),
                   "<line class=\"slo\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                   "<text class=\"slo\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
                   px, px, top - 6, bottom, px, top - 10, anchor, escape(limit.label));
  }
  // The baseline's line first, so that the others are drawn over it.
  for (const Line& line : chart.lines) append_line(out, line, x, y);
  append_end_labels(out, chart, y, right, top, bottom);
  return out + "</svg>";
}

std::string svg(const RowChart& chart) {
  constexpr double kPitch = 24.0;
  const double left = 130;
  const double right = chart.width - 12.0;
  const double bottom = kPitch * static_cast<double>(chart.rows.size()) + 4;
  const Scale x(chart.x, left, right);
  std::string out = open_svg(chart.width, static_cast<int>(bottom) + 24, chart.name, "");
  for (const Tick& tick : chart.x.ticks) {
    fmt::format_to(std::back_inserter(out),
                   "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1:.1f}\"/>"
                   "<text class=\"tick\" x=\"{0:.1f}\" y=\"{2:.1f}\" text-anchor=\"middle\">{3}</text>",
                   x(tick.at), bottom, bottom + 16, escape(tick.label));
  }
  fmt::format_to(std::back_inserter(out), "<g class=\"r{}\" data-r=\"{}\">", chart.colour, chart.run);
  for (std::size_t i = 0; i < chart.rows.size(); ++i) {
    fmt::format_to(std::back_inserter(out),
                   "<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", left - 8,
                   kPitch * static_cast<double>(i) + 16, escape(chart.rows[i]));
  }
  for (const Stretch& s : chart.stretches) {
    // Short ones are still to be seen.
    fmt::format_to(
        std::back_inserter(out),
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"16\"><title>{}</title></rect>", s.look,
        x(s.from), kPitch * static_cast<double>(s.row) + 4, std::max(1.0, x(s.to) - x(s.from)), escape(s.title));
  }
  return out + "</g></svg>";
}

std::string svg(const BarChart& chart) {
  constexpr double kPitch = 42.0;
  constexpr int kWidth = 640;
  const double left = 8;
  const double right = 520;
  double largest = 0.0;
  for (const Bar& bar : chart.bars) {
    double sum = 0.0;
    for (const double part : bar.parts) sum += part;
    largest = std::max(largest, sum);
  }
  const double per_unit = largest > 0.0 ? (right - left) / largest : 0.0;
  const int height = static_cast<int>(kPitch * static_cast<double>(chart.bars.size()) + 8);
  std::string out = open_svg(kWidth, height, chart.name, "");
  double top = 0.0;
  for (const Bar& bar : chart.bars) {
    double x = left;
    fmt::format_to(std::back_inserter(out),
                   "<g class=\"r{}\" data-r=\"{}\"><text class=\"bar-name\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                   bar.colour, bar.run, left, top + 14, escape(bar.label));
    for (std::size_t i = 0; i < bar.parts.size(); ++i) {
      const double width = bar.parts[i] * per_unit;
      const std::string value = fmt::format("{} {} {}", chart.parts[i], number(bar.parts[i]), chart.unit);
      fmt::format_to(
          std::back_inserter(out),
          "<rect class=\"part{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"18\"><title>{}</title></rect>", i,
          x, top + 19, std::max(0.0, width - 1.0), escape(fmt::format("{}: {}", bar.label, value)));
      // Only if it fits: about so many px a letter at this size.
      for (const auto& [where, letter] : {std::pair{"screen", 6.2}, {"phone", 9.8}}) {
        const std::string shown =
            width > letter * static_cast<double>(value.size()) + 10 ? value : number(bar.parts[i]);
        if (width <= letter * static_cast<double>(shown.size()) + 8) continue;
        fmt::format_to(std::back_inserter(out), "<text class=\"in part{} {}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", i,
                       where, x + 6, top + 32, escape(shown));
      }
      x += width;
    }
    // On a phone there is no room next to the longest bar.
    fmt::format_to(std::back_inserter(out),
                   "<text class=\"bar-total screen\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>"
                   "<text class=\"bar-total phone\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text></g>",
                   x + 7, top + 32, escape(bar.total), kWidth - left, top + 14, escape(bar.total));
    top += kPitch;
  }
  return out + "</svg>";
}

namespace {

/// Where a dot chart has its plot.
struct DotFrame {
  static constexpr int kWidth = 480;
  static constexpr int kHeight = 250;
  static constexpr double kLeft = 56;
  static constexpr double kRight = kWidth - 16;
  static constexpr double kTop = 22;
  static constexpr double kBottom = kHeight - 40;
  explicit DotFrame(const DotChart& chart) : x(chart.x, kLeft, kRight), y(chart.y, kBottom, kTop) {}
  Scale x;
  Scale y;
};

struct Box {
  double left, top, right, bottom;
  [[nodiscard]] bool meets(const Box& o) const {
    return left < o.right && o.left < right && top < o.bottom && o.top < bottom;
  }
};

/// A dot in pixels, and its name next to it if there is room.
struct PlacedDot {
  const Dot* dot;
  double x, y;
  bool named = false;
  bool leftwards = false;
  double name_y = 0.0;
};

/// Names go right of their dots, else left of them, else a little below or above; never onto another name, another
/// run's dot, the axis' title or out of the plot. By height, then by x.
std::vector<PlacedDot> placed(const DotChart& chart, const DotFrame& frame) {
  // As letters are on a phone, which are the largest: 8.4 px each, 14 px high.
  constexpr double kLetter = 8.4, kAbove = 9.0, kBelow = 4.0, kAside = 10.0, kRadius = 5.5;
  std::vector<PlacedDot> all;
  for (const Dot& dot : chart.dots) all.push_back({.dot = &dot, .x = frame.x(dot.x), .y = frame.y(dot.y)});
  std::ranges::stable_sort(
      all, [](const PlacedDot& a, const PlacedDot& b) { return a.y < b.y || (a.y == b.y && a.x < b.x); });
  std::vector<Box> taken{{0.0, 0.0, kLetter * static_cast<double>(chart.y_title.size()), 15.0}};
  const auto fits = [&](const Box& name, const PlacedDot& own) {
    if (name.left < DotFrame::kLeft || name.right > DotFrame::kWidth || name.bottom > DotFrame::kBottom) return false;
    const auto covered = [&](const PlacedDot& other) {
      return &other != &own && name.meets({other.x - kRadius, other.y - kRadius, other.x + kRadius, other.y + kRadius});
    };
    return std::ranges::none_of(taken, [&](const Box& o) { return name.meets(o); }) &&
           std::ranges::none_of(all, covered);
  };
  for (PlacedDot& one : all) {
    const double width = kLetter * static_cast<double>(one.dot->label.size());
    for (const double lower : {0.0, 14.0, 28.0, -14.0}) {
      for (const bool leftwards : {false, true}) {
        if (one.named) continue;
        const double y = one.y + lower + 4.0;
        const double from = leftwards ? one.x - kAside - width : one.x + kAside;
        const Box name{from, y - kAbove, from + width, y + kBelow};
        if (!fits(name, one)) continue;
        one.named = true;
        one.leftwards = leftwards;
        one.name_y = y;
        taken.push_back(name);
      }
    }
  }
  return all;
}

}  // namespace

std::vector<const Dot*> unnamed(const DotChart& chart) {
  std::vector<const Dot*> out;
  for (const PlacedDot& one : placed(chart, DotFrame(chart))) {
    if (!one.named) out.push_back(one.dot);
  }
  std::ranges::stable_sort(out, {}, &Dot::x);
  return out;
}

std::string svg(const DotChart& chart) {
  const DotFrame frame(chart);
  std::string out = open_svg(DotFrame::kWidth, DotFrame::kHeight, chart.name, "");
  append_axes(out, chart.x, chart.y, frame.x, frame.y, DotFrame::kLeft, DotFrame::kRight, DotFrame::kBottom);
  fmt::format_to(std::back_inserter(out),
                 "<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>"
                 "<text class=\"axis\" x=\"4\" y=\"12\">{}</text>",
                 DotFrame::kRight, DotFrame::kBottom + 33, escape(chart.x_title), escape(chart.y_title));
  for (const PlacedDot& one : placed(chart, frame)) {
    const Dot& dot = *one.dot;
    fmt::format_to(std::back_inserter(out),
                   "<g class=\"r{}\" data-r=\"{}\"><circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5.5\"/>"
                   "<title>{}: {} {}, {} {}</title>",
                   dot.colour, dot.run, one.x, one.y, escape(dot.label), number(dot.x, 4), escape(chart.x.unit),
                   number(dot.y, 4), escape(chart.y.unit));
    if (one.named) {
      fmt::format_to(
          std::back_inserter(out), "<text class=\"end\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
          one.leftwards ? one.x - 10 : one.x + 10, one.name_y, one.leftwards ? "end" : "start", escape(dot.label));
    }
    out += "</g>";
  }
  return out + "</svg>";
}

}  // namespace wattle::report
