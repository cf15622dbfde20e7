#pragma once
// Reads a measured data set from a CSV file with a header line.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wattle::fidelity {

class Table {
 public:
  /// Errors, with file, line and column: a missing file; one that CsvReader rejects; a missing column (alternative
  /// names are written as "a|b"); a cell of `numbers` that is not a finite number.
  [[nodiscard]] static Result<Table> read(const std::string& file, const std::vector<std::string>& texts = {},
                                          const std::vector<std::string>& numbers = {});

  [[nodiscard]] std::size_t rows() const { return cells_.size(); }
  [[nodiscard]] bool has(std::string_view column) const;
  [[nodiscard]] const std::string& text(std::size_t row, std::string_view column) const;
  /// NaN if empty or not a number.
  [[nodiscard]] double number(std::size_t row, std::string_view column) const;
  /// 1-based line of a row in the file.
  [[nodiscard]] std::size_t line(std::size_t row) const { return static_cast<std::size_t>(lines_[row]); }

 private:
  [[nodiscard]] std::size_t column(std::string_view name) const;
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> cells_;
  std::vector<std::int64_t> lines_;
};

}  // namespace wattle::fidelity
