// The evaluation as one HTML page that needs nothing but a browser.
#include <fmt/format.h>

#include <algorithm>

#include "report/chart.h"
#include "report/page.h"
#include "report/text.h"
#include "reproduce/evaluation.h"

namespace wattle::reproduce {

namespace {

std::string drawn(const Plot& plot) {
  double x_high = 0.0;
  double y_low = 0.0;
  double y_high = 0.0;
  for (const auto& line : plot.lines) {
    for (const auto& [x, y] : line.points) {
      x_high = std::max(x_high, x);
      y_low = std::min(y_low, y);
      y_high = std::max(y_high, y);
    }
  }
  report::LineChart chart;
  chart.name = plot.title;
  chart.width = 560;  // drawn about as large, in pairs: so is its text
  chart.height = 240;
  chart.x = report::linear_axis(0.0, x_high, 6, plot.x_unit);
  chart.y = report::linear_axis(y_low, y_high, 5, plot.y_unit);
  std::string keys;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    chart.lines.push_back({i, i, plot.lines[i].points, {}});
    keys += fmt::format(" <i class=\"swatch r{}\"></i>{}", i, report::escape(plot.lines[i].name));
  }
  return fmt::format("<figure><figcaption>{}, {} against {}{}</figcaption>{}</figure>", report::escape(plot.title),
                     report::escape(plot.y_unit), report::escape(plot.x_unit), keys, report::svg(chart));
}

/// "table5/SS/ttft", which may be broken after each slash and underscore: a phone is narrower than a row's name.
std::string breakable(const std::string& id) {
  std::string out;
  for (const char c : report::escape(id)) {
    out.push_back(c);
    if (c == '/' || c == '_') out += "<wbr/>";
  }
  return out;
}

std::string table(const Section& section) {
  std::string rows;
  for (const Row& row : section.rows) {
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"unit\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                        breakable(row.id), report::escape(row.unit),
                        row.published ? report::number(*row.published, 4) : "–", report::number(row.ours, 4),
                        row.published ? report::change(row.relative()) : "");
  }
  return fmt::format(
      "<div class=\"scroll\"><table class=\"values\"><thead><tr><th>row</th><th "
      "class=\"unit\">unit</th><th>published</th><th>ours</th><th>relative</th></tr></thead>"
      "<tbody>{}</tbody></table></div>",
      rows);
}

}  // namespace

std::string html(std::string_view system, std::span<const Section> sections) {
  std::string body;
  for (const Section& section : sections) {
    body += fmt::format("<section><h2>{}</h2><p class=\"note\">{}</p>", report::escape(section.source),
                        report::escape(section.note));
    for (const Target& target : section.targets) {
      body +=
          fmt::format("<p><strong>{}</strong>: {} (target {}): {}</p>", report::escape(target.name),
                      report::number(target.value, 4), report::escape(target.wanted), target.met ? "met" : "not met");
    }
    body += "<div class=\"pair\">";
    for (const Plot& plot : section.plots) body += drawn(plot);
    body += "</div>" + table(section) + "</section>";
  }
  const auto title = fmt::format("wattle reproduce {}", report::escape(system));
  return fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><title>{0}</title><style>{1}</style></head>"
      "<body><main><h1>{0}</h1>{2}</main></body></html>\n",
      title, report::style(), body);
}

}  // namespace wattle::reproduce
