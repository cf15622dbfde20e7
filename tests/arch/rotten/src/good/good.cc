#include "good/good.h"

namespace rotten::good {
std::vector<int> numbers() { return {1, 2, 3}; }
}  // namespace rotten::good
