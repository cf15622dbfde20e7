#include "base/even_rows.h"

#include <fmt/core.h>

#include <array>
#include <limits>

#include "base/csv.h"
#include "base/timestamp.h"

namespace wattle {

namespace {
/// Steps are minutes to hours. The bound finds a garbled first or second time, and keeps the end of the last step
/// within 64 bits of nanoseconds.
constexpr std::int64_t kLongestStepNs = std::int64_t{31} * 86'400 * 1'000'000'000;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
}  // namespace

Result<EvenRows> read_even_rows(const EvenColumns& columns, std::string_view text, const std::string& name) {
  const std::array<std::string_view, 2> wanted = {columns.time, columns.value};
  auto opened = CsvReader::open(text, name, wanted);
  if (!opened) return std::unexpected(opened.error());
  CsvReader& csv = *opened;
  EvenRows read;
  std::int64_t step = 0;
  std::string second;  ///< file and line of that row
  while (true) {
    const auto more = csv.next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto time = parse_timestamp(csv.field(0));
    if (!time) return csv.bad_field(0, "it must be a time like 2024-01-01 00:00:00 (UTC)");
    if (!read.rows.empty()) {
      const std::int64_t since = *time - read.rows.back().first;
      if (since <= 0)
        return csv.bad_field(0, fmt::format("it does not lie after the row above; sort by {}", csv.column(0)));
      if (since > kLongestStepNs) return csv.bad_field(0, "it lies more than 31 days after the row above; check both");
      if (step == 0) {
        step = since;
        second = csv.where();
      }
      // The first distance may be the gap.
      if (since < step && read.rows.size() == 2) {
        return bad_input(second,
                         fmt::format("lies {:g} s after the row above, the next row {:g} s after it; fill the gap or "
                                     "begin the file here",
                                     static_cast<double>(step) * 1e-9, static_cast<double>(since) * 1e-9));
      }
      if (columns.unknown && since % step == 0) {
        for (std::int64_t at = read.rows.back().first + step; at < *time; at += step) read.rows.emplace_back(at, kNone);
      } else if (since != step) {
        return csv.bad_field(
            0, fmt::format("it lies {:g} s after the row above, the rows before were {:g} s apart; fill the "
                           "gap or cut the file there",
                           static_cast<double>(since) * 1e-9, static_cast<double>(step) * 1e-9));
      }
    }
    if (columns.unknown && csv.is_absent(1)) {
      read.rows.emplace_back(*time, kNone);
      continue;
    }
    const auto value = csv.number(1, columns.low, columns.high);
    if (!value) return std::unexpected(value.error());
    read.rows.emplace_back(*time, *value);
  }
  if (read.rows.size() < 2)
    return bad_input(csv.where(), "has fewer than two rows, so the length of a step is unknown");
  read.end_ns = read.rows.back().first + step;
  return read;
}

}  // namespace wattle
