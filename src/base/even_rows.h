#pragma once
// CSV rows of a time and a number that ascend in equal steps.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace wattle {

/// Which columns to read, and which numbers are sensible (in the file's own unit).
struct EvenColumns {
  std::string time;
  std::string value;
  double low = 0.0;
  double high = 0.0;
  /// Absent values (CsvReader::is_absent) and missing rows are steps of unknown value (NaN), not errors.
  bool unknown = false;
};

struct EvenRows {
  std::vector<std::pair<std::int64_t, double>> rows;  ///< ns since 1970 UTC, the file's unit; at least two
  std::int64_t end_ns = 0;                            ///< where the last row's step ends
};

/// A gap (unless EvenColumns::unknown), a duplicate or an unsorted row is an error. Errors: where = "name:line".
[[nodiscard]] Result<EvenRows> read_even_rows(const EvenColumns& columns, std::string_view text,
                                              const std::string& name);

}  // namespace wattle
