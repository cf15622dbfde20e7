#pragma once
// CSV rows of a time and a number that ascend in equal steps.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "feeds/step_series.h"

namespace wattle::feeds {

/// Which columns to read, and which numbers are sensible (in the file's own unit).
struct EvenColumns {
  std::string time;
  std::string value;
  double low = 0.0;
  double high = 0.0;
};

struct EvenRows {
  std::vector<std::pair<std::int64_t, double>> rows;  ///< ns since 1970 UTC, the file's unit; at least two
  std::int64_t end_ns = 0;                            ///< where the last row's step ends
};

/// A gap, a duplicate or an unsorted row is an error. Errors: where = "name:line".
[[nodiscard]] Result<EvenRows> read_even_rows(const EvenColumns& columns, std::string_view text,
                                              const std::string& name);

/// `origin_ns`, or the first row's time without one. Errors: it does not lie within the data.
[[nodiscard]] Result<std::int64_t> checked_origin(const EvenRows& rows, const std::string& name,
                                                  std::optional<std::int64_t> origin_ns);

/// The rows as a series whose Instant 0 is `origin_ns`; `unit` is what one unit of the file is in Value's.
template <typename Value>
[[nodiscard]] Result<StepSeries<Value>> even_series(const EvenColumns& columns, double unit, std::string_view text,
                                                    const std::string& name, std::optional<std::int64_t> origin_ns) {
  const auto read = read_even_rows(columns, text, name);
  if (!read) return std::unexpected(read.error());
  const auto origin = checked_origin(*read, name, origin_ns);
  if (!origin) return std::unexpected(origin.error());
  std::vector<typename StepSeries<Value>::Point> points;
  points.reserve(read->rows.size());
  for (const auto& [time, value] : read->rows) points.push_back({Instant(time - *origin), Value(value * unit)});
  return StepSeries<Value>::from_points(std::move(points), Instant(read->end_ns - *origin));
}

}  // namespace wattle::feeds
