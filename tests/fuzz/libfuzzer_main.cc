// The coverage-guided driver (clang's libFuzzer).
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto verdict = wattle::fuzz::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!verdict.broken_rule.empty()) {
    std::fprintf(stderr, "rule broken: %s\n", verdict.broken_rule.c_str());
    std::abort();
  }
  return 0;
}
