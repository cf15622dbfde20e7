// Planted for the symbol ban: starts a thread.
#include <thread>
void planted_std_thread(void (*f)()) { std::thread(f).join(); }
