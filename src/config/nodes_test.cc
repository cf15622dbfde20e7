#include "config/nodes.h"

#include <gtest/gtest.h>

#include "config/test_texts.h"

namespace wattle::config {
namespace {

const std::string kMore = R"(count = 2
tensor_parallel = 4
[[node]]
gpus = 4
count = 2
[[node]]
gpus = 8
[[fault]]
at_s = 60
node = 2
down_s = 30
[[fault]]
at_s = 5
instance = 7
clock_share = 0.5
)";

Result<LoadedScenario> load(const std::string& text) {
  return scenario_from_text(text, "s.toml", {}, testing::project());
}

TEST(Nodes, ScenariosStateMachinesAndWhatDies) {
  const auto loaded = load(testing::kScenario + kMore);
  ASSERT_TRUE(loaded) << loaded.error().message();
  const auto nodes = nodes_of(loaded->scenario);
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[1].gpus, 4);
  EXPECT_EQ(nodes[2].id, NodeId(2));
  EXPECT_EQ(nodes[2].gpus, 8);
  ASSERT_EQ(loaded->scenario.faults.size(), 2U);
  EXPECT_EQ(loaded->scenario.faults[0].down, Span::s(30));
  EXPECT_EQ(loaded->scenario.faults[1].instance, 7);
  EXPECT_EQ(loaded->scenario.faults[1].clock_share, 0.5);
  const auto reshard = reshard_problem(*loaded);
  EXPECT_NEAR(static_cast<double>(reshard.weight_bytes), loaded->llm.weight_bytes(), 1.0);
  EXPECT_NEAR(static_cast<double>(reshard.gpu_bytes), 0.9 * 80e9, 6e9) << "what the engine may use of it";
}

TEST(Nodes, WithoutMachinesAClusterIsAsLargeAsTheFleet) {
  const auto gpus = [](const std::string& fleet) {
    const auto loaded = load(testing::kScenario + fleet);
    EXPECT_TRUE(loaded) << loaded.error().message();
    return cluster_of(*loaded).node_gpus;
  };
  EXPECT_EQ(gpus("count = 3\ntensor_parallel = 4\n"), std::vector<std::int32_t>(3, 4));
  EXPECT_EQ(gpus("count = 1\ntensor_parallel = 2\n"), std::vector<std::int32_t>(1, 2));
}

TEST(Nodes, BadOnesNameTheirLine) {
  const auto problem = [](const std::string& from, const std::string& to) {
    const auto loaded = load(testing::edited(testing::kScenario + kMore, from, to));
    return loaded ? std::string("accepted") : loaded.error().message();
  };
  EXPECT_EQ(problem("node = 2\n", "node = 3\n"), "s.toml:16: there is no node 3; the scenario has 3, counted from 0");
  EXPECT_EQ(problem("node = 2\n", ""), "s.toml:16: a fault is of a node or of an instance; state one of the two");
  EXPECT_TRUE(problem("count = 2\n", "count = 5\n").contains("no [[node]] has 4 free GPUs for instance 4")) << "5 of 4";
}

}  // namespace
}  // namespace wattle::config
