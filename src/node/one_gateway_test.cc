#include "node/one_gateway.h"

#include <gtest/gtest.h>

namespace wattle::node::one_gateway_test {
namespace {

constexpr Span kLease = Span::ms(100);
Instant at(std::int64_t ms) { return Instant() + Span::ms(ms); }

TEST(OneGateway, WhileTwoCommandNeitherIsObeyed) {
  OneGateway engine;
  EXPECT_TRUE(engine.obeys("a", kLease, at(10)));
  EXPECT_TRUE(engine.obeys("a", kLease, at(60)));
  EXPECT_FALSE(engine.obeys("b", kLease, at(70)));
  for (std::int64_t ms = 80; ms < 500; ms += 20) {
    EXPECT_FALSE(engine.obeys("a", kLease, at(ms)));
    EXPECT_FALSE(engine.obeys("b", kLease, at(ms + 5)));
    EXPECT_TRUE(engine.contested(at(ms + 10)));
  }
  EXPECT_EQ(engine.other_than("a"), "b");
  EXPECT_EQ(engine.other_than("b"), "a");
}

TEST(OneGateway, TheOneThatIsLeftIsObeyedOnceTheOthersLeaseIsOver) {
  OneGateway engine;
  EXPECT_TRUE(engine.obeys("a", kLease, at(10)));
  EXPECT_FALSE(engine.obeys("b", kLease, at(20)));  // its last
  EXPECT_FALSE(engine.obeys("a", kLease, at(119)));
  EXPECT_TRUE(engine.obeys("a", kLease, at(120)));
  EXPECT_FALSE(engine.obeys("b", kLease, at(130)));
  EXPECT_FALSE(engine.obeys("b", kLease, at(219)));
  EXPECT_TRUE(engine.obeys("b", kLease, at(220))) << "the first has not been heard since 120";
  EXPECT_FALSE(engine.contested(at(220)));
}

}  // namespace
}  // namespace wattle::node::one_gateway_test
