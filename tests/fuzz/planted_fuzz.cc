// A parser that lets garbage in (a negative count) so that the driver can be seen to catch it.
#include <charconv>

#include "fuzz.h"

namespace wattle::fuzz {

std::vector<std::string> seeds() { return {"count 12\n", "count 7\n"}; }

Verdict parse(std::string_view input) {
  int count = 0;
  if (!input.starts_with("count ") ||
      std::from_chars(input.data() + 6, input.data() + input.size(), count).ec != std::errc()) {
    return rejected(Error{ErrorKind::BadInput, "fuzz:1", "expected 'count N'"}, "fuzz");
  }
  return {true, count < 0 ? "a negative count was accepted" : ""};
}

}  // namespace wattle::fuzz
