#include "managers/mistaken.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/test_sharding.h"

namespace wattle::managers {
namespace {

plan::LoadTable two_classes() {
  plan::LoadTable table;
  for (const double heavier : {0.4, 1.6}) {
    const auto one = plan::testing::formula_class("any", heavier, 1.0);
    table.classes.push_back({"any", 200.0, 100.0, one.limits, one.profiles});
  }
  return table;
}

/// Said at once or one by one, it is the same mean of the last thousand.
TEST(Mistaken, ForgetsByRequests) {
  const plan::LoadTable table = two_classes();
  Mistaken at_once(table), one_by_one(table);
  TurnedOut many, one, of_no_class;
  many.add(ClassId(0), ClassId(1), 500);
  one.add(ClassId(0), ClassId(1));
  of_no_class.add(ClassId(0), ClassId(99));
  at_once.learn(many);
  for (int i = 0; i < 500; ++i) one_by_one.learn(one);
  at_once.learn(of_no_class);
  std::vector<double> a = {1.0}, b = {1.0};
  at_once.weigh(a);
  one_by_one.weigh(b);
  EXPECT_NEAR(a[0], b[0], 1e-9);
  const double heavier = plan::load_in(table.classes[1], table.classes[0]);
  ASSERT_GT(heavier, 1.5);
  EXPECT_NEAR(a[0], heavier + (1.0 - heavier) * std::exp(-0.5), 1e-9);
}

}  // namespace
}  // namespace wattle::managers
