#include "node/lease_desk.h"

#include <gtest/gtest.h>

namespace wattle::node {
namespace {

struct Port final : control::ClockPort {
  void command(InstanceId id, MegaHertz clock, Instant) override { commands.emplace_back(id.value(), clock.value()); }
  std::vector<std::pair<std::int32_t, std::int32_t>> commands;
};
using Commands = std::vector<std::pair<std::int32_t, std::int32_t>>;

Instant at(std::int64_t ms) { return Instant() + Span::ms(ms); }

TEST(LeaseDesk, FallsBackWhenNobodyRenews) {
  Port port;
  LeaseDesk desk(port);
  desk.add(InstanceId{3}, MegaHertz{1410}, at(0));
  EXPECT_EQ(desk.next_tick(), Instant::never()) << "nothing is leased: nothing ends";
  EXPECT_TRUE(desk.grant(InstanceId{3}, MegaHertz{900}, Span::ms(100), at(10)));
  desk.tick(at(109));
  EXPECT_TRUE(desk.grant(InstanceId{3}, MegaHertz{900}, Span::ms(100), at(109)));  // renewed: no second command
  EXPECT_EQ(desk.next_tick(), at(209));
  desk.tick(at(208));
  EXPECT_EQ(port.commands, (Commands{{3, 1410}, {3, 900}}));
  desk.tick(at(209));
  desk.tick(at(300));
  EXPECT_EQ(port.commands, (Commands{{3, 1410}, {3, 900}, {3, 1410}}));
  EXPECT_EQ(desk.counts().expired, 1);
  EXPECT_EQ(desk.commanded(InstanceId{3}), MegaHertz{1410});
  EXPECT_TRUE(desk.grant(InstanceId{3}, MegaHertz{900}, Span::ms(100), at(301)));  // and back again
  EXPECT_EQ(port.commands.back(), (std::pair<std::int32_t, std::int32_t>(3, 900)));
}

TEST(LeaseDesk, KnowsItsOwnInstancesOnly) {
  Port port;
  LeaseDesk desk(port);
  desk.add(InstanceId{0}, MegaHertz{1410}, at(0));
  EXPECT_FALSE(desk.grant(InstanceId{1}, MegaHertz{900}, Span::s(1), at(1)));
  EXPECT_EQ(desk.commanded(InstanceId{1}), MegaHertz{0});
  EXPECT_EQ(port.commands.size(), 1U);
}

}  // namespace
}  // namespace wattle::node
