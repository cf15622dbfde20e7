// Planted for the symbol ban: reads the environment.
#include <cstdlib>
const char* planted_getenv() { return std::getenv("HOME"); }
