#pragma once
// A broken invariant is a bug of ours, never of the input: it prints where and aborts (docs/errors.md).

namespace wattle {
[[noreturn]] void check_failed(const char* expression, const char* file, int line, const char* why);
}

#define WATTLE_CHECK(condition, why) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::wattle::check_failed(#condition, __FILE__, __LINE__, why))
