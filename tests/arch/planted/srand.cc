// Planted for the symbol ban: seeds the hidden generator.
#include <cstdlib>
void planted_srand() { std::srand(1); }
