// The coverage-guided driver, called by clang's libFuzzer, which has main().
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "fuzz.h"

/// `--seeds-to DIR`: writes the valid inputs there, each into a file, and ends.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 3 || std::string_view((*argv)[1]) != "--seeds-to") return 0;
  std::size_t count = 0;
  for (const std::string& seed : wattle::fuzz::seeds()) {
    std::ofstream((*argv)[2] + ("/seed-" + std::to_string(count++)), std::ios::binary) << seed;
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto verdict = wattle::fuzz::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!verdict.broken_rule.empty()) {
    std::fprintf(stderr, "rule broken: %s\n", verdict.broken_rule.c_str());
    std::abort();
  }
  return 0;
}
