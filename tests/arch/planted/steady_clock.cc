// Planted for the symbol ban: reads a clock.
#include <chrono>
long planted_steady_clock() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
