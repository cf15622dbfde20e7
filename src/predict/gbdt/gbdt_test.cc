// Models written by hand, and what must be refused. Agreement with XGBoost itself is tested in learn/, which links it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "predict/gbdt/gbdt_latency.h"
#include "predict/gbdt/residual_latency.h"
#include "predict/shapes_test.h"

namespace wattle::predict {
namespace {

/// Two trees: requests < 257 ? (kv < 1000 ? 1 : 3) : 10; clock < 1200 ? 5 : 2. Base score 20.
const std::string kTrees = R"({"learner":{"gradient_booster":{"model":{"trees":[
{"left_children":[1,3,-1,-1,-1],"right_children":[2,4,-1,-1,-1],"split_indices":[1,2,0,0,0],
 "split_conditions":[257,1000,10,1,3],"split_type":[0,0,0,0,0]},
{"left_children":[1,-1,-1],"right_children":[2,-1,-1],"split_indices":[0,0,0],"split_conditions":[1200,5,2]}]},
"name":"gbtree"},"learner_model_param":{"base_score":"2E1","num_class":"0","num_feature":"3"},
"objective":{"name":"reg:absoluteerror"}},"version":[1,7,4]})";

/// T_P = 500 - 0.25 f + 0.125 n + 1.
const std::string kLinear = R"({"learner":{"gradient_booster":{"model":{"weights":[-0.25,0.125,1]},"name":"gblinear"},
"learner_model_param":{"base_score":"5E2","num_feature":"2"},"objective":{"name":"reg:squarederror"}},"version":[1,7,4]})";

std::string edited(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(GbdtTrees, WalksAsXgboostDoes) {
  const auto trees = GbdtTrees::from_xgboost(kTrees);
  ASSERT_TRUE(trees) << trees.error().message();
  EXPECT_EQ(trees->predict({1005, 256, 999}), 20 + 1 + 5);
  EXPECT_EQ(trees->predict({1005, 256, 1000}), 20 + 3 + 5) << "a value at its threshold goes right";
  EXPECT_EQ(trees->predict({1410, 257, 0}), 20 + 10 + 2);
  EXPECT_EQ(trees->predict({1005, 257, 5}), 35);
  EXPECT_EQ(trees->predict({1200, 257, 5}), 32);
  EXPECT_TRUE(std::isnan(trees->predict({1005, std::numeric_limits<float>::quiet_NaN(), 0})));
}

TEST(GbdtTrees, AFourthFeatureIsResolved) {
  // The second tree now asks the fourth feature; the first tree's inner node likewise.
  auto text = edited(kTrees, R"("split_indices":[0,0,0],"split_conditions":[1200,5,2])",
                     R"("split_indices":[3,0,0],"split_conditions":[2,5,2])");
  text = edited(text, "[1,2,0,0,0]", "[1,3,0,0,0]");
  text = edited(text, "[257,1000,10,1,3]", "[257,4,10,1,3]");
  text = edited(text, R"("num_feature":"3")", R"("num_feature":"4")");
  EXPECT_FALSE(GbdtTrees::from_xgboost(text));
  EXPECT_FALSE(GbdtTrees::from_xgboost_at(kTrees, 1));
  const auto at = [&](float fourth) {
    const auto trees = GbdtTrees::from_xgboost_at(text, fourth);
    EXPECT_TRUE(trees);
    return std::pair(trees->predict({1005, 256, 0}), trees->predict({1005, 257, 0}));
  };
  EXPECT_EQ(at(1), std::pair(20.0F + 1 + 5, 20.0F + 10 + 5));
  EXPECT_EQ(at(2), std::pair(20.0F + 1 + 2, 20.0F + 10 + 2));
  EXPECT_EQ(at(4), std::pair(20.0F + 3 + 2, 20.0F + 10 + 2));
}

TEST(GbdtLatency, RatesBecomeTimes) {
  // 20 + 1 + 5 iterations/s, and so on; below or at 0 nobody is to believe it.
  const LinearBooster nothing{{0, 0}, 0, 0};
  const auto model =
      GbdtLatency::make(nothing, GbdtTrees::from_xgboost(kTrees).value(), GbdtLatency::Target::Rate).value();
  EXPECT_EQ(model.step_time(decodes(257, 0), MegaHertz{1005}), Span::from_seconds(1.0 / 35));
  const auto slow = GbdtTrees::from_xgboost(edited(kTrees, "2E1", "-5E1")).value();
  const auto broken = GbdtLatency::make(nothing, slow, GbdtLatency::Target::Rate).value();
  EXPECT_GT(broken.step_time(decodes(257, 0), MegaHertz{1005}), Span::s(600));
}

TEST(GbdtLatency, IsTheTreesPlusTheLine) {
  const auto model =
      GbdtLatency::make(LinearBooster::from_xgboost(kLinear, 2).value(), GbdtTrees::from_xgboost(kTrees).value());
  ASSERT_TRUE(model) << model.error().message();
  EXPECT_EQ(model->cells(), 8U);
  EXPECT_EQ(model->step_time(decodes(256, 999), MegaHertz{1005}), Span::ms(26));
  EXPECT_EQ(model->step_time(decodes(256, 1000), MegaHertz{1199}), Span::ms(28));
  EXPECT_EQ(model->step_time(decodes(257, 0), MegaHertz{1410}), Span::ms(32));
  StepShape prefill;
  prefill.prefill_tokens = 800;
  EXPECT_EQ(model->step_time(prefill, MegaHertz{1400}), Span::ms(251));
  auto both = decodes(256, 0);
  both.prefill_tokens = 800;
  EXPECT_EQ(model->step_time(both, MegaHertz{1400}), Span::ms(251 + 23));
  EXPECT_EQ(model->step_time({}, MegaHertz{1400}), Span()) << "an idle step takes no time";

  EXPECT_EQ(model->kv_tokens_within(decodes(256, 0), MegaHertz{1005}, Span::ms(27)), 999);
  EXPECT_EQ(model->kv_tokens_within(decodes(256, 0), MegaHertz{1005}, Span::ms(28)),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(model->kv_tokens_within(decodes(256, 7), MegaHertz{1005}, Span::ms(25)), 7);
}

TEST(GbdtLatency, IsMadeMonotoneInKvTokens) {
  const auto falling = GbdtTrees::from_xgboost(edited(kTrees, "257,1000,10,1,3", "257,1000,10,3,1"));
  const auto model = GbdtLatency::make(LinearBooster::from_xgboost(kLinear, 2).value(), falling.value());
  EXPECT_EQ(model->step_time(decodes(1, 0), MegaHertz{1410}), Span::ms(24)) << "the trees say 25";
  EXPECT_EQ(model->step_time(decodes(1, 5000), MegaHertz{1410}), Span::ms(24)) << "the trees say 23";
}

/// 20 ms, and so much more for each KV token; at 1005 MHz, and a tenth of it more at 1410. From 201 requests on, a tile
/// of its own with twice the slope.
std::shared_ptr<const LinearLatency> rising(double us_per_kv_token) {
  LinearCoefficients c;
  c.tile_ends = {200};
  for (const auto& [mhz, factor] : {std::pair(1005, 1.0), std::pair(1410, 1.1)}) {
    const double ns = 1e3 * us_per_kv_token * factor;
    c.clocks.push_back({MegaHertz{mhz}, {}, {{0.0, ns, 20e6 * factor}, {0.0, 2.0 * ns, 20e6 * factor}}});
  }
  return std::make_shared<const LinearLatency>(LinearLatency::make(std::move(c)).value());
}

ResidualLatency on_lines(double us_per_kv_token, const std::string& trees) {
  const auto read = GbdtTrees::from_xgboost(trees).value();
  return ResidualLatency::make(rising(us_per_kv_token), read, read).value();
}

/// kTrees with 3 ms below 1,000 KV tokens and 1 ms from there on.
const std::string kFalling = edited(kTrees, "257,1000,10,1,3", "257,1000,10,3,1");

TEST(ResidualLatency, AddsTheTreesToTheLines) {
  const auto model = on_lines(10, kTrees);
  const auto trees = GbdtTrees::from_xgboost(kTrees).value();
  const auto table = GbdtLatency::make(trees, trees).value();
  for (const std::int32_t requests : {1, 200, 201, 256, 257}) {
    for (const std::int64_t kv : {0, 999, 1'000, 5'000}) {
      const auto shape = decodes(requests, kv);
      for (const MegaHertz clock : {MegaHertz{1005}, MegaHertz{1410}}) {
        EXPECT_EQ(model.step_time(shape, clock), rising(10)->step_time(shape, clock) + table.step_time(shape, clock));
      }
    }
  }
}

TEST(ResidualLatency, TreesTakeTimeAwayWhereTheLinesRise) {
  // Before and behind the border, what the trees say; 2 ms less there, which these lines are 200 tokens long in rising.
  const auto model = on_lines(10, kFalling);
  const auto ms = [&](std::int64_t kv) { return model.step_time(decodes(1, kv), MegaHertz{1005}).millis(); };
  EXPECT_DOUBLE_EQ(ms(0), 20 + 20 + 3 + 5);
  EXPECT_DOUBLE_EQ(ms(800 - 1), 28 + 20 + 7.99);
  EXPECT_DOUBLE_EQ(ms(1'200), 26 + 20 + 12);
  EXPECT_DOUBLE_EQ(ms(5'000), 26 + 20 + 50);
  // Between, the middle of 57.99 and what comes after, from 56 on; and of 57.99, the most before, and what is there.
  EXPECT_NEAR(ms(900), (48 + 9 + 56) / 2.0, 0.01);
  EXPECT_NEAR(ms(1'100), (46 + 11 + 57.99) / 2.0, 0.01);
}

TEST(ResidualLatency, IsNeverShorterForMoreKvTokens) {
  for (const double us : {0.0, 0.5, 10.0}) {
    const auto model = on_lines(us, kFalling);
    for (const std::int32_t requests : {1, 256}) {
      Span before;
      for (std::int64_t kv = 0; kv < 12'000; ++kv) {
        const Span time = model.step_time(decodes(requests, kv), MegaHertz{1005});
        ASSERT_GE(time, before) << us << " us, " << requests << " requests, " << kv << " tokens";
        before = time;
      }
    }
  }
  EXPECT_EQ(on_lines(0, kFalling).step_time(decodes(1, 0), MegaHertz{1005}), Span::ms(20 + 20 + 2 + 5))
      << "lines that do not rise leave the middle of 3 and 1";
}

TEST(ResidualLatency, LinesStandAloneAtClocksTheyWereNotFittedAt) {
  const auto model = on_lines(10, kTrees);
  for (const std::int32_t mhz : {900, 1200, 1500}) {
    const auto shape = decodes(256, 3'000);
    EXPECT_EQ(model.step_time(shape, MegaHertz{mhz}), rising(10)->step_time(shape, MegaHertz{mhz}));
    EXPECT_EQ(model.kv_tokens_within(shape, MegaHertz{mhz}, Span::s(1)),
              rising(10)->kv_tokens_within(shape, MegaHertz{mhz}, Span::s(1)));
  }
}

TEST(ResidualLatency, HoldsAsFarAsItSays) {
  for (const auto& [us, trees] : {std::pair(10.0, kTrees), std::pair(10.0, kFalling), std::pair(0.7, kFalling)}) {
    const auto model = on_lines(us, trees);
    for (const std::int32_t requests : {1, 256, 257}) {
      for (const std::int64_t own : {0, 850, 998, 1'000, 1'500}) {
        for (int budget_us = 40'000; budget_us < 90'000; budget_us += 70) {
          auto shape = decodes(requests, own);
          const Span budget = Span::us(budget_us);
          const std::int64_t most = model.kv_tokens_within(shape, MegaHertz{1005}, budget);
          ASSERT_GE(most, own);
          if (model.step_time(shape, MegaHertz{1005}) > budget) {
            ASSERT_EQ(most, own);
            continue;
          }
          shape.decode_kv_tokens = most;
          ASSERT_LE(model.step_time(shape, MegaHertz{1005}), budget) << requests << " " << own << " " << budget_us;
          shape.decode_kv_tokens = most + 1;
          ASSERT_GT(model.step_time(shape, MegaHertz{1005}), budget) << requests << " " << own << " " << budget_us;
        }
      }
    }
  }
  const auto flat = on_lines(0, kTrees);
  EXPECT_EQ(flat.kv_tokens_within(decodes(1, 0), MegaHertz{1005}, Span::ms(46)), 999);
  EXPECT_EQ(flat.kv_tokens_within(decodes(1, 0), MegaHertz{1005}, Span::ms(48)),
            std::numeric_limits<std::int64_t>::max());
}

struct Bad {
  const char* name;
  const char* from;
  const char* to;
  const char* where;
};
class BadModel : public ::testing::TestWithParam<Bad> {};

TEST_P(BadModel, IsRefusedAtItsKey) {
  const Bad& bad = GetParam();
  ASSERT_NE(kTrees.find(bad.from), std::string::npos);
  const auto trees = GbdtTrees::from_xgboost(edited(kTrees, bad.from, bad.to));
  ASSERT_FALSE(trees);
  EXPECT_EQ(trees.error().where, bad.where) << trees.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    All, BadModel,
    ::testing::Values(Bad{"OtherVersion", "[1,7,4]", "[2,0,0]", "version"},
                      Bad{"NoVersion", "\"version\":[1,7,4]", "\"v\":1", "version"},
                      Bad{"OtherBooster", "\"gbtree\"", "\"dart\"", "learner.gradient_booster.name"},
                      Bad{"OtherObjective", "reg:absoluteerror", "reg:gamma", "learner.objective.name"},
                      Bad{"OtherFeatures", "\"num_feature\":\"3\"", "\"num_feature\":\"4\"",
                          "learner.learner_model_param.num_feature"},
                      Bad{"BaseScoreNoNumber", "2E1", "nan", "learner.learner_model_param.base_score"},
                      Bad{"ColumnTooShort", "[1,3,-1,-1,-1]", "[1,3,-1,-1]", "trees.0.left_children"},
                      Bad{"PointsNowhere", "[1,3,-1,-1,-1]", "[1,9,-1,-1,-1]", "trees.0.left_children"},
                      Bad{"HalfALeaf", "[1,3,-1,-1,-1]", "[1,-1,-1,-1,-1]", "trees.0.left_children"},
                      Bad{"ACycle", "[1,3,-1,-1,-1]", "[1,1,-1,-1,-1]", "trees.0"},
                      Bad{"UnknownFeature", "[1,2,0,0,0]", "[1,3,0,0,0]", "trees.0.left_children"},
                      Bad{"NotFinite", "[257,1000", "[1e60,1000", "trees.0.split_conditions"},
                      Bad{"NotANumber", "[257,1000", "[null,1000", "trees.0.split_conditions"},
                      Bad{"Categorical", "[0,0,0,0,0]", "[0,1,0,0,0]", "trees.0.split_type"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(GbdtTrees, EveryTruncationIsRefused) {
  for (std::size_t n = 0; n < kTrees.size(); ++n) EXPECT_FALSE(GbdtTrees::from_xgboost({kTrees.data(), n})) << n;
  for (std::size_t n = 0; n < kLinear.size(); ++n)
    EXPECT_FALSE(LinearBooster::from_xgboost({kLinear.data(), n}, 2)) << n;
}

TEST(LinearBooster, IsRefusedAtItsKey) {
  EXPECT_EQ(LinearBooster::from_xgboost(edited(kLinear, "0.125,", ""), 2).error().where,
            "learner.gradient_booster.model.weights");
  EXPECT_EQ(LinearBooster::from_xgboost(kTrees, 3).error().where, "learner.gradient_booster.name");
  EXPECT_FALSE(GbdtLatency::make(LinearBooster{{1.0F}, 0.0F, 0.0F}, GbdtTrees::from_xgboost(kTrees).value()));
}

}  // namespace
}  // namespace wattle::predict
