#include "predict/class_hint.h"

#include <gtest/gtest.h>

#include "model/classifier.h"

namespace wattle::predict {
namespace {

/// Share of true lengths uniform in [1, 600] that are put into their own class, and within one of it.
std::pair<double, double> accuracy_of(const Confusion& confusion, const std::vector<std::int32_t>& below) {
  ConfusedClasses hint(below, confusion, 7);
  const Classifier classes({}, below);
  RandomStream random(1, "lengths");
  int right = 0;
  int near = 0;
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) {
    const auto truth = static_cast<std::int32_t>(1 + random.below(600));
    const std::int32_t said = classes.of(1, hint.predict(truth, 4096)).value();
    const std::int32_t is = classes.of(1, truth).value();
    right += said == is ? 1 : 0;
    near += std::abs(said - is) <= 1 ? 1 : 0;
  }
  return {right / double{kDraws}, near / double{kDraws}};
}

TEST(ClassHint, IsRightAsOftenAsItIsSaidToBe) {
  for (const double accuracy : {0.0, 0.6, 0.81, 1.0}) {
    const auto [right, near] = accuracy_of(Confusion::to_neighbours(3, accuracy), {100, 350});
    EXPECT_NEAR(right, accuracy, 0.01);
    EXPECT_DOUBLE_EQ(near, 1.0);
  }
  EXPECT_DOUBLE_EQ(accuracy_of(Confusion::to_neighbours(1, 0.3), {}).first, 1.0);
}

TEST(ClassHint, ErrsAsMeasured) {
  EXPECT_NEAR(Confusion::measured_accuracy(), 0.807, 0.002);  // the data set's own figure
  const auto measured = Confusion::as_measured(Confusion::measured_accuracy());
  EXPECT_NEAR(measured.share(0, 0), 35538.7 / 42784.0, 1e-9);
  EXPECT_NEAR(measured.share(2, 1), 455.8 / 586.1, 1e-9);
  for (const double accuracy : {0.6, 0.9, 1.0}) {
    const auto scaled = Confusion::as_measured(accuracy);
    for (std::size_t i = 0; i < scaled.classes(); ++i) {
      EXPECT_NEAR(scaled.share(i, 0) + scaled.share(i, 1) + scaled.share(i, 2), 1.0, 1e-12);
    }
    EXPECT_NEAR(scaled.share(0, 0), 1.0 - (1.0 - measured.share(0, 0)) * (1.0 - accuracy) / (1.0 - 0.80574), 1e-4);
  }
}

TEST(ClassHint, NeverSaysMoreThanTheClientAllows) {
  ConfusedClasses hint({100, 350}, Confusion::to_neighbours(3, 0.0), 1);
  for (int i = 0; i < 100; ++i) EXPECT_LE(hint.predict(200, 120), 120);
}

TEST(ClassHint, TheSameSeedSaysTheSame) {
  ConfusedClasses one({100, 350}, Confusion::as_measured(0.7), 3);
  ConfusedClasses two({100, 350}, Confusion::as_measured(0.7), 3);
  for (int i = 1; i < 500; ++i) EXPECT_EQ(one.predict(i, 4096), two.predict(i, 4096));
}

}  // namespace
}  // namespace wattle::predict
