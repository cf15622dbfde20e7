#include "model/objectives.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace wattle {
namespace {

const Classifier kNine({256, 1024}, {100, 350});

TEST(Classifier, DynamoLlmsNineClasses) {
  EXPECT_EQ(kNine.size(), 9);
  std::string names;
  for (std::int32_t c = 0; c < kNine.size(); ++c) names += kNine.name(ClassId(c)) + " ";
  EXPECT_EQ(names, "SS SM SL MS MM ML LS LM LL ");
  EXPECT_EQ(kNine.of(255, 99), kNine.find("SS"));
  EXPECT_EQ(kNine.of(256, 99), kNine.find("MS"));
  EXPECT_EQ(kNine.of(255, 350), kNine.find("SL"));
  EXPECT_EQ(kNine.of(100'000, 100'000), kNine.find("LL"));
}

TEST(Classifier, FreeshsPartitionsAreOtherBorders) {
  const Classifier partition({184}, {444});
  EXPECT_EQ(partition.name(partition.of(200, 10)), "LS");
  EXPECT_EQ(partition.size(), 4);
  EXPECT_EQ(Classifier({}, {444}).name(ClassId(1)), "L");
  EXPECT_EQ(Classifier().name(ClassId(0)), "all");
}

TEST(Classifier, EveryNumberOfClassesHasNamesOfItsOwn) {
  for (int prompts = 0; prompts < 6; ++prompts) {
    for (int outputs = 0; outputs < 6; ++outputs) {
      std::vector<std::int32_t> p;
      std::vector<std::int32_t> o;
      for (int i = 1; i <= prompts; ++i) p.push_back(100 * i);
      for (int i = 1; i <= outputs; ++i) o.push_back(100 * i);
      const Classifier classes(p, o);
      std::set<std::string> names;
      for (std::int32_t c = 0; c < classes.size(); ++c) {
        names.insert(classes.name(ClassId(c)));
        EXPECT_EQ(classes.find(classes.name(ClassId(c))), ClassId(c));
      }
      EXPECT_EQ(names.size(), static_cast<std::size_t>(classes.size()));
    }
  }
}

TEST(Classifier, ARequestWithoutAPredictionCountsAsLongAsItMayBecome) {
  Request request;
  request.prompt_tokens = 10;
  request.max_tokens = 4096;
  EXPECT_EQ(kNine.of(request), kNine.find("SL"));
  request.predicted_output_tokens = 20;
  EXPECT_EQ(kNine.of(request), kNine.find("SS"));
}

Slo ttft(Span limit) {
  Slo slo;
  slo.ttft = limit;
  return slo;
}

TEST(Objectives, ATierOutranksASizeAndASizeTheFleet) {
  Slo fleet = ttft(Span::ms(1000));
  fleet.tbt = Span::ms(100);
  std::vector<Slo> by_size(9);
  by_size[0] = ttft(Span::ms(250));
  const Objectives objectives(fleet, kNine, by_size,
                              {{"strict", {}, 1.0}, {"loose", {}, 2.0}, {"own", ttft(Span::ms(10)), 3.0}});
  Request small;
  small.prompt_tokens = 10;
  EXPECT_EQ(objectives.of(small, 10).ttft, Span::ms(250));
  EXPECT_EQ(objectives.of(small, 10).tbt, Span::ms(100));
  EXPECT_EQ(objectives.of(small, 200).ttft, Span::ms(1000)) << "by what it turned out to be";
  small.tier = TierId(1);
  EXPECT_EQ(objectives.of(small, 10).ttft, Span::ms(500));
  EXPECT_EQ(objectives.of(small, 10).tbt, Span::ms(200));
  small.tier = TierId(2);
  EXPECT_EQ(objectives.of(small, 10).ttft, Span::ms(10));
  EXPECT_EQ(objectives.of(small, 10).tbt, Span::ms(300));
  EXPECT_EQ(objectives.of(small, 10).e2e, std::nullopt);
  EXPECT_EQ(objectives.strictest().ttft, Span::ms(10));
  EXPECT_EQ(objectives.strictest().tbt, Span::ms(100));
  EXPECT_TRUE(objectives.strictest().ttft_varies);
  const Objectives two(fleet, kNine, by_size, {{"loose", {}, 2.0}, {"strict", {}, 1.0}});
  small.tier = TierId(0);
  EXPECT_EQ(two.of_strictest_tier().of(small, 10).ttft, Span::ms(250)) << "whatever the order of tiers";
  EXPECT_EQ(two.of_strictest_tier().of(small, 200).ttft, Span::ms(1000));
  small.tier = TierId(77);
  EXPECT_EQ(objectives.of(small, 10).ttft, Span::ms(10)) << "an unknown tier is the last";
}

TEST(Objectives, SaysWhatGapsOfATierMayBeHeldTo) {
  Slo fleet;
  fleet.itl = Span::ms(50);
  std::vector<Slo> by_size(9);
  by_size[0].itl = Span::ms(20);
  by_size[4].itl = Span::ms(100);
  Slo own;
  own.itl = Span::ms(5);
  const Objectives objectives(fleet, kNine, by_size, {{"plain", {}, 1.0}, {"own", own, 3.0}});
  EXPECT_EQ(objectives.itl_limits(TierId(0)), (std::vector{Span::ms(20), Span::ms(50), Span::ms(100)}));
  EXPECT_EQ(objectives.itl_limits(TierId(1)), (std::vector{Span::ms(5)}));
  EXPECT_EQ(objectives.itl_of(TierId(0), 10, 10), Span::ms(20));
  EXPECT_EQ(objectives.itl_of(TierId(1), 10, 10), Span::ms(5));
}

TEST(Objectives, OneForAll) {
  const Objectives objectives = Service{}.judged(ttft(Span::ms(5)));
  EXPECT_TRUE(objectives.uniform());
  EXPECT_FALSE(objectives.strictest().ttft_varies);
  EXPECT_EQ(objectives.of(Request{}, 1'000'000).ttft, Span::ms(5));
}

}  // namespace
}  // namespace wattle
