#pragma once
// 128-bit integers for exact sums (energy in picojoules, time in fixed point). g++ and clang both have them on 64-bit
// targets.

namespace wattle {
__extension__ typedef __int128 Int128;
}  // namespace wattle
