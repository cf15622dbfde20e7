#include "node/lease_table.h"

#include <gtest/gtest.h>

namespace wattle::node::lease_table_test {
namespace {

struct Port final : control::ClockPort {
  void command(InstanceId id, MegaHertz clock, Instant) override { commands.emplace_back(id.value(), clock.value()); }
  std::vector<std::pair<std::int32_t, std::int32_t>> commands;
};
using Commands = std::vector<std::pair<std::int32_t, std::int32_t>>;

Instant at(std::int64_t ms) { return Instant() + Span::ms(ms); }

TEST(LeaseTable, FallsBackWhenNobodyRenews) {
  Port port;
  LeaseTable table(port);
  table.add(InstanceId{3}, MegaHertz{1410}, at(0));
  EXPECT_EQ(table.next_tick(), Instant::never()) << "nothing is leased: nothing ends";
  EXPECT_TRUE(table.grant(InstanceId{3}, MegaHertz{900}, Span::ms(100), at(10)));
  table.tick(at(109));
  EXPECT_TRUE(table.grant(InstanceId{3}, MegaHertz{900}, Span::ms(100), at(109)));  // renewed: no second command
  EXPECT_EQ(table.next_tick(), at(209));
  table.tick(at(208));
  EXPECT_EQ(port.commands, (Commands{{3, 1410}, {3, 900}}));
  table.tick(at(209));
  table.tick(at(300));
  EXPECT_EQ(port.commands, (Commands{{3, 1410}, {3, 900}, {3, 1410}}));
  EXPECT_EQ(table.counts().expired, 1);
  EXPECT_EQ(table.commanded(InstanceId{3}), MegaHertz{1410});
  EXPECT_TRUE(table.grant(InstanceId{3}, MegaHertz{900}, Span::ms(100), at(301)));  // and back again
  EXPECT_EQ(port.commands.back(), (std::pair<std::int32_t, std::int32_t>(3, 900)));
}

TEST(LeaseTable, KnowsItsOwnInstancesOnly) {
  Port port;
  LeaseTable table(port);
  table.add(InstanceId{0}, MegaHertz{1410}, at(0));
  EXPECT_FALSE(table.grant(InstanceId{1}, MegaHertz{900}, Span::s(1), at(1)));
  EXPECT_EQ(table.commanded(InstanceId{1}), MegaHertz{0});
  EXPECT_EQ(port.commands.size(), 1U);
}

}  // namespace
}  // namespace wattle::node::lease_table_test
