// Planted for the symbol ban: reads a clock.
#include <ctime>
long planted_clock_gettime() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_nsec;
}
