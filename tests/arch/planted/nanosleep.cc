// Planted for the symbol ban: sleeps.
#include <chrono>
#include <thread>
void planted_nanosleep() { std::this_thread::sleep_for(std::chrono::seconds(1)); }
