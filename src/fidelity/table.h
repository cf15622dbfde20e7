#pragma once
// Reads a measured data set from a CSV file with a header line.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wattle::fidelity {

/// A column of numbers, and what its cells may hold.
struct Numbers {
  std::string column;
  double low = 0.0;
  double high = 0.0;
  bool whole = false;
  bool may_be_empty = false;    ///< a cell may be, or hold a data frame's word for no value
  bool may_be_missing = false;  ///< the column may be

  [[nodiscard]] Numbers or_none() const;
  [[nodiscard]] Numbers if_there() const;
};

// What benchmarks count and measure. The bounds are far beyond any that we know, and small enough to be simulated.
[[nodiscard]] Numbers gpus(std::string column);           ///< or another degree of parallelism
[[nodiscard]] Numbers requests(std::string column);       ///< whole: in flight, in a batch, slots
[[nodiscard]] Numbers mean_requests(std::string column);  ///< the same as a mean
[[nodiscard]] Numbers tokens(std::string column);         ///< whole: a prompt's, an answer's or a step's
[[nodiscard]] Numbers mean_tokens(std::string column);    ///< the same as a mean
[[nodiscard]] Numbers clock_mhz(std::string column);      ///< whole
[[nodiscard]] Numbers size(std::string column);           ///< whole: of a matrix
[[nodiscard]] Numbers measured(std::string column);       ///< above 0: time, power, energy, rate
[[nodiscard]] Numbers not_negative(std::string column);   ///< where 0 has a meaning of its own

class Table {
 public:
  /// Errors, with file, line and column: a missing file; one that CsvReader rejects; a missing column (alternative
  /// names are written as "a|b"); a cell of `numbers` that is none or out of its bounds.
  [[nodiscard]] static Result<Table> read(const std::string& file, const std::vector<std::string>& texts = {},
                                          const std::vector<Numbers>& numbers = {});

  [[nodiscard]] std::size_t rows() const { return cells_.size(); }
  [[nodiscard]] bool has(std::string_view column) const;
  [[nodiscard]] const std::string& text(std::size_t row, std::string_view column) const;
  /// NaN if empty or not a number.
  [[nodiscard]] double number(std::size_t row, std::string_view column) const;
  /// Of a column that was read as whole numbers; none is 0.
  [[nodiscard]] std::int32_t whole(std::size_t row, std::string_view column) const;
  /// "file:line" of a row.
  [[nodiscard]] std::string where(std::size_t row) const;

 private:
  [[nodiscard]] std::size_t column(std::string_view name) const;
  std::string file_;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> cells_;
  std::vector<std::int64_t> lines_;
};

}  // namespace wattle::fidelity
