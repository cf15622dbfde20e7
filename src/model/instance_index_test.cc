#include "model/instance_index.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace wattle {
namespace {

/// Against a map: positions are ranks.
RC_GTEST_PROP(InstanceIndex, PositionsAreTheRanksOfThoseThatAreThere, ()) {
  InstanceIndex index;
  std::map<InstanceId, int> there;
  std::int32_t next = 0;
  const auto steps = *rc::gen::inRange(1, 200);
  for (int s = 0; s < steps; ++s) {
    if (there.empty() || *rc::gen::inRange(0, 3) > 0) {
      next += *rc::gen::inRange(1, 3);
      RC_ASSERT(index.add(InstanceId(next)) == there.size());
      there[InstanceId(next)] = 0;
    } else {
      const auto gone = std::next(there.begin(), *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(there)));
      RC_ASSERT(index.remove(gone->first) == static_cast<std::size_t>(std::distance(there.begin(), gone)));
      RC_ASSERT(!index.find(gone->first));
      there.erase(gone);
    }
    RC_ASSERT(index.size() == there.size());
    RC_ASSERT(index.newest() == InstanceId(next));
    std::size_t rank = 0;
    for (const auto& [id, unused] : there) {
      RC_ASSERT(index[rank] == id);
      RC_ASSERT(index.at(id) == rank++);
    }
  }
  RC_ASSERT(!index.find(kNoInstance));
}

}  // namespace
}  // namespace wattle
