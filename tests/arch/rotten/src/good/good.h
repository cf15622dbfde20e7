#pragma once
#include <vector>
namespace rotten::good {
std::vector<int> numbers();
}
