// Coverage for clang's libFuzzer from code that g++ compiled: g++ calls a function in every basic block
// (-fsanitize-coverage=trace-pc), libFuzzer reads 8-bit counters, which clang's code has itself. Two blocks in 65,536
// may share one. Linked into everything that is compiled so; libFuzzer's empty function of that name is wrapped.
#include <cstddef>
#include <cstdint>

extern "C" void __sanitizer_cov_8bit_counters_init(std::uint8_t* begin, std::uint8_t* end);

namespace {
constexpr std::size_t kCounters = std::size_t{1} << 16U;
std::uint8_t counters[kCounters];

[[gnu::constructor]] void introduce_counters() { __sanitizer_cov_8bit_counters_init(counters, counters + kCounters); }
}  // namespace

extern "C" void __wrap___sanitizer_cov_trace_pc() {
  constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;  // Fibonacci hashing: the product's upper bits
  const auto block = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++counters[block * kGolden >> 48U];
}
