#include "fidelity/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/csv.h"
#include "base/file.h"

namespace wattle::fidelity {

Result<Table> Table::read(const std::string& file, const std::vector<std::string>& texts,
                          const std::vector<std::string>& numbers) {
  const auto text = read_file(file);
  if (!text) return std::unexpected(text.error());
  std::vector<std::string_view> columns(texts.begin(), texts.end());
  columns.insert(columns.end(), numbers.begin(), numbers.end());
  auto reader = CsvReader::open(*text, file, columns);
  if (!reader) return std::unexpected(reader.error());
  Table table;
  table.header_.assign(reader->header().begin(), reader->header().end());
  for (auto more = reader->next(); !more || *more; more = reader->next()) {
    if (!more) return std::unexpected(more.error());
    table.cells_.emplace_back(reader->fields().begin(), reader->fields().end());
    table.lines_.push_back(reader->line());
    for (std::size_t i = texts.size(); i < columns.size(); ++i) {
      if (!std::isfinite(table.number(table.rows() - 1, columns[i])))
        return reader->bad_field(i, "it must be a number");
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
