#include "node/agent_metrics.h"

#include <gtest/gtest.h>

#include <sstream>

namespace wattle::node {
namespace {

TEST(AgentMetrics, EveryFamilySaysWhatItIs) {
  std::istringstream lines(AgentMetrics{}.text());
  std::string before;
  std::string line;
  int families = 0;
  while (std::getline(lines, line)) {
    if (line.starts_with("# TYPE ")) {
      const std::string name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(before.starts_with("# HELP " + name + " ")) << line << " after " << before;
      ++families;
    }
    before = line;
  }
  EXPECT_GT(families, 50);
}

}  // namespace
}  // namespace wattle::node
