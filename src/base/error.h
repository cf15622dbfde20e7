#pragma once
// Errors are values at boundaries: a Result carries either the value or an Error that says where and what would be
// right.
#include <cstdint>
#include <expected>
#include <string>
#include <utility>

namespace wattle {

/// What kind of failure; apps map it to an exit code (docs/errors.md).
enum class ErrorKind : std::uint8_t {
  BadInput,  ///< a file, key, flag or request is wrong: exit 2
  Failed,    ///< the work ran and failed its own check: exit 1
  External,  ///< something outside failed (port taken, engine unreachable): exit 3
};

/// One line for a person: `where` names file, line or key; `what` says what is wrong and what would be right.
struct Error {
  ErrorKind kind = ErrorKind::BadInput;
  std::string where;
  std::string what;

  [[nodiscard]] std::string message() const { return where.empty() ? what : where + ": " + what; }
};

template <typename T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> bad_input(std::string where, std::string what) {
  return std::unexpected(Error{ErrorKind::BadInput, std::move(where), std::move(what)});
}
[[nodiscard]] inline std::unexpected<Error> external_failure(std::string where, std::string what) {
  return std::unexpected(Error{ErrorKind::External, std::move(where), std::move(what)});
}

}  // namespace wattle
