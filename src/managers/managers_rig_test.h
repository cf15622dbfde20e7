#pragma once
// Three classes by formula on servers of eight GPUs, as the managers' tests have them.
#include <vector>

#include "plan/load_table.h"
#include "plan/test_sharding.h"
#include "policy/scaling/scaling.h"

namespace wattle::managers {

inline plan::LoadTable formula_table() {
  plan::LoadTable table;
  table.llm = "some-70b";
  table.gpu = "h100";
  const char* names[] = {"S", "M", "L"};
  for (int c = 0; c < 3; ++c) {
    const auto one = plan::testing::formula_class(names[c], 0.4 + 0.6 * c, 1.0);
    table.classes.push_back({names[c], 200.0 * (c + 1), 100.0, one.limits, one.profiles});
  }
  return table;
}

inline std::vector<policy::Shape> shapes() {
  return {{8, 0.0, Span::s(60)}, {4, 0.0, Span::s(60)}, {2, 0.0, Span::s(60)}};
}

inline FleetMember member(int id, std::size_t shape, int node, int pool) {
  FleetMember made;
  made.id = InstanceId(id);
  made.shape = shape;
  made.phase = Phase::Serving;
  made.pool = PoolId(pool);
  made.node = NodeId(node);
  made.gpus = {0};
  return made;
}

inline double node_carries(const plan::LoadTable& table, std::size_t c) {
  return plan::most_load(table.classes[c], 8, MegaHertz(1980));
}

}  // namespace wattle::managers
