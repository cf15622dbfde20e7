#pragma once
// What a parser's fuzz file provides. Two drivers run it: mutate_main.cc (deterministic) and, under the address
// sanitizer, libfuzzer_main.cc (coverage-guided). To add a parser: one NAME_fuzz.cc and one line in CMakeLists.txt.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wattle::fuzz {

/// The parser's answer to one input, and the rule it broke, if any.
struct Verdict {
  bool accepted = false;
  std::string broken_rule;  ///< empty: none
};

/// Valid inputs, small and unlike each other; mutations start from them. The parser must accept each.
[[nodiscard]] std::vector<std::string> seeds();

/// Parses one input. Never crashes; checks accepted values (one that breaks an invariant is garbage let in), and passes
/// refusals to rejected().
[[nodiscard]] Verdict parse(std::string_view input);

/// A rejection, and whether the error says what errors must: bad input, where (starting with `file`), and what.
[[nodiscard]] inline Verdict rejected(const Error& error, std::string_view file) {
  if (error.kind != ErrorKind::BadInput) return {false, "the error is not BadInput: " + error.message()};
  if (!error.where.starts_with(file)) return {false, "the error does not name the file: " + error.message()};
  if (error.what.empty()) return {false, "the error does not say what is wrong"};
  return {false, ""};
}

}  // namespace wattle::fuzz
