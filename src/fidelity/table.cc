#include "fidelity/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>

#include "base/check.h"

namespace wattle::fidelity {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace

Result<Table> Table::read(const std::string& file, const std::vector<std::string>& texts,
                          const std::vector<std::string>& numbers) {
  std::ifstream in(file);
  if (!in) return bad_input(file, "cannot be read");
  Table table;
  std::string line;
  if (!std::getline(in, line) || line.empty()) return bad_input(file + ":1", "no header line");
  table.header_ = split(line);
  std::size_t number = 1;
  while (std::getline(in, line)) {
    ++number;
    if (line.empty()) continue;
    std::vector<std::string> cells = split(line);
    if (cells.size() != table.header_.size()) {
      return bad_input(fmt::format("{}:{}", file, number),
                       fmt::format("{} fields where the header has {}", cells.size(), table.header_.size()));
    }
    table.cells_.push_back(std::move(cells));
  }
  for (const auto& columns : {texts, numbers}) {
    for (const std::string& name : columns) {
      if (!table.has(name)) return bad_input(file + ":1", fmt::format("no column \"{}\"", name));
    }
  }
  for (std::size_t row = 0; row < table.rows(); ++row) {
    for (const std::string& name : numbers) {
      if (std::isfinite(table.number(row, name))) continue;
      return bad_input(fmt::format("{}:{}", file, table.line(row)),
                       fmt::format("column \"{}\": \"{}\" is no number", name, table.text(row, name)));
    }
  }
  return table;
}

bool Table::has(std::string_view name) const { return std::ranges::find(header_, name) != header_.end(); }

std::size_t Table::column(std::string_view name) const {
  const auto at = std::ranges::find(header_, name);
  WATTLE_CHECK(at != header_.end(), "callers ask for columns they have checked");
  return static_cast<std::size_t>(at - header_.begin());
}

const std::string& Table::text(std::size_t row, std::string_view name) const { return cells_[row][column(name)]; }

double Table::number(std::size_t row, std::string_view name) const {
  const std::string& cell = text(row, name);
  double value = 0.0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc{} || end != cell.data() + cell.size()) return std::numeric_limits<double>::quiet_NaN();
  return value;
}

}  // namespace wattle::fidelity
