#include "base/check.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

namespace wattle {

void check_failed(const char* expression, const char* file, int line, const char* why) {
  fmt::print(stderr, "wattle: invariant broken at {}:{}: {} ({})\n", file, line, expression, why);
  std::abort();
}

}  // namespace wattle
