#pragma once
// Seeded mutations of text inputs.
#include <string>
#include <vector>

#include "base/random.h"

namespace wattle::fuzz {

/// One of the seeds after one to four random edits: bits and bytes flipped, text cut, repeated, moved, lines swapped or
/// doubled, numbers replaced by awkward ones, or the tail of another seed put on.
[[nodiscard]] std::string mutate(const std::vector<std::string>& seeds, RandomStream& random);

}  // namespace wattle::fuzz
