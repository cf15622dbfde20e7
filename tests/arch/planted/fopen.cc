// Planted for the symbol ban: opens a file.
#include <cstdio>
std::FILE* planted_fopen() { return std::fopen("x", "r"); }
