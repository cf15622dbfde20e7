// Planted for the symbol ban: opens a file.
#include <fstream>
void planted_ofstream() { std::ofstream("x") << 1; }
