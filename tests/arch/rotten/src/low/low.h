#pragma once
// Not self-contained: <vector> is missing.
namespace rotten::low {
std::vector<int> numbers();
}
