// Planted for the symbol ban: reads a clock.
#include <chrono>
long planted_system_clock() { return std::chrono::system_clock::now().time_since_epoch().count(); }
