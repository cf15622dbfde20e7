// Planted for the symbol ban: draws an unseeded number.
#include <cstdlib>
int planted_rand() { return std::rand(); }
