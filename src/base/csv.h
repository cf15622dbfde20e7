#pragma once
// A strict, fast reader of comma-separated text: columns by header name, errors with file and line.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wattle {

/// Walks the rows of a CSV text (RFC 4180: quoted fields, CRLF or LF) whose first line is a header. A byte-order mark
/// and blank lines are accepted. A quoted field may not span lines: no trace has one, and the rule finds a lost quote
/// on the line where it was lost. Every row must have as many fields as the header.
class CsvReader {
 public:
  /// `text` must outlive the reader. `columns` are the wanted header names; field(i) is the value of columns[i].
  /// An alternative spelling is written "a|b". Errors: empty text, a wanted column missing or there twice.
  static Result<CsvReader> open(std::string_view text, std::string name, std::span<const std::string_view> columns);

  /// Moves to the next row; false at the end. Errors: wrong number of fields, an unclosed quote.
  Result<bool> next();

  /// Every column's name, and the current row's values of them.
  [[nodiscard]] std::span<const std::string> header() const { return names_; }
  [[nodiscard]] std::span<const std::string_view> fields() const { return fields_; }
  [[nodiscard]] std::string_view field(std::size_t i) const { return fields_[wanted_[i]]; }
  [[nodiscard]] std::string_view column(std::size_t i) const { return names_[wanted_[i]]; }
  /// The i-th wanted column is empty or a word by which data frames write that they have no value.
  [[nodiscard]] bool is_absent(std::size_t i) const;
  /// 1-based line of the current row.
  [[nodiscard]] std::int64_t line() const { return line_; }
  /// "file:line" of the current row.
  [[nodiscard]] std::string where() const;
  /// An error at the current row about the i-th wanted column: "NAME is 'VALUE'; REMEDY".
  [[nodiscard]] std::unexpected<Error> bad_field(std::size_t i, std::string_view remedy) const;

  /// The i-th wanted column as a whole number in [low, high]; 44.0, which data frames write, is 44.
  Result<std::int64_t> whole(std::size_t i, std::int64_t low, std::int64_t high) const;
  /// The i-th wanted column as a finite number in [low, high].
  Result<double> number(std::size_t i, double low, double high) const;

 private:
  CsvReader(std::string_view text, std::string name) : rest_(text), name_(std::move(name)) {}
  std::optional<std::string_view> take_line();
  Result<void> split(std::string_view line);

  std::string_view rest_;
  std::string name_;
  std::int64_t line_ = 0;
  std::vector<std::string> names_;
  std::vector<std::size_t> wanted_;
  std::vector<std::string_view> fields_;
  std::vector<std::string> unescaped_;  ///< storage of quoted fields that hold doubled quotes
};

}  // namespace wattle
