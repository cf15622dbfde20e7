// Planted for the symbol ban: draws an unseeded number.
#include <random>
unsigned planted_random_device() { return std::random_device{}(); }
