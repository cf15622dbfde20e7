#include "fidelity/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/csv.h"
#include "base/file.h"

namespace wattle::fidelity {

namespace {

constexpr double kMostGpus = 1024;
constexpr double kMostRequests = 100'000;
constexpr double kMostTokens = 1e7;
constexpr double kMostMeasured = 1e12;
constexpr double kLeastMeasured = 1e-12;
constexpr double kLargestSize = 1e9;  // a 32-bit number

Result<void> check(const CsvReader& reader, std::size_t i, const Numbers& of) {
  if (of.may_be_empty && reader.is_absent(i)) return {};
  if (of.whole) {
    const auto value = reader.whole(i, static_cast<std::int64_t>(of.low), static_cast<std::int64_t>(of.high));
    return value ? Result<void>() : std::unexpected(value.error());
  }
  if (of.low == kLeastMeasured) {  // which says less than "above 0"
    const auto value = reader.number(i, std::numeric_limits<double>::lowest(), kMostMeasured);
    if (value && *value < of.low) return reader.bad_field(i, "it must be above 0");
  }
  const auto value = reader.number(i, of.low, of.high);
  return value ? Result<void>() : std::unexpected(value.error());
}

/// The columns that may be missing are left out where they are.
Result<std::vector<Numbers>> there(const std::string& text, const std::string& file,
                                   const std::vector<Numbers>& numbers) {
  const auto reader = CsvReader::open(text, file, {});
  if (!reader) return std::unexpected(reader.error());
  std::vector<Numbers> found = numbers;
  std::erase_if(found, [&](const Numbers& of) {
    return of.may_be_missing && std::ranges::find(reader->header(), of.column) == reader->header().end();
  });
  return found;
}

}  // namespace

Numbers Numbers::or_none() const {
  Numbers made = *this;
  made.may_be_empty = true;
  return made;
}

Numbers Numbers::if_there() const {
  Numbers made = *this;
  made.may_be_missing = true;
  return made;
}

Numbers gpus(std::string column) { return {std::move(column), 1, kMostGpus, true}; }
Numbers requests(std::string column) { return {std::move(column), 1, kMostRequests, true}; }
Numbers mean_requests(std::string column) { return {std::move(column), 1, kMostRequests}; }
Numbers tokens(std::string column) { return {std::move(column), 1, kMostTokens, true}; }
Numbers mean_tokens(std::string column) { return {std::move(column), 1, kMostTokens}; }
Numbers clock_mhz(std::string column) { return {std::move(column), 1, 1e5, true}; }
Numbers size(std::string column) { return {std::move(column), 1, kLargestSize, true}; }
Numbers measured(std::string column) { return {std::move(column), kLeastMeasured, kMostMeasured}; }
Numbers not_negative(std::string column) { return {std::move(column), 0, kMostMeasured}; }

Result<Table> Table::read(const std::string& file, const std::vector<std::string>& texts,
                          const std::vector<Numbers>& numbers) {
  const auto text = read_file(file);
  if (!text) return std::unexpected(text.error());
  const auto wanted = there(*text, file, numbers);
  if (!wanted) return std::unexpected(wanted.error());
  std::vector<std::string_view> columns(texts.begin(), texts.end());
  for (const Numbers& of : *wanted) columns.push_back(of.column);
  auto reader = CsvReader::open(*text, file, columns);
  if (!reader) return std::unexpected(reader.error());
  Table table;
  table.file_ = file;
  table.header_.assign(reader->header().begin(), reader->header().end());
  for (auto more = reader->next(); !more || *more; more = reader->next()) {
    if (!more) return std::unexpected(more.error());
    table.cells_.emplace_back(reader->fields().begin(), reader->fields().end());
    table.lines_.push_back(reader->line());
    for (std::size_t i = 0; i < wanted->size(); ++i) {
      if (auto ok = check(*reader, texts.size() + i, (*wanted)[i]); !ok) return std::unexpected(std::move(ok.error()));
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

std::int32_t Table::whole(std::size_t row, std::string_view name) const {
  const double value = number(row, name);
  if (std::isnan(value)) return 0;
  WATTLE_CHECK(value == std::trunc(value) && std::abs(value) <= kLargestSize, "the column was read as whole numbers");
  return static_cast<std::int32_t>(value);
}

std::string Table::where(std::size_t row) const { return fmt::format("{}:{}", file_, lines_[row]); }

}  // namespace wattle::fidelity
