#include "plan/load_table.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/digest.h"
#include "plan/test_sharding.h"

namespace wattle::plan {
namespace {

LoadTable formula_table() {
  LoadTable table;
  table.provenance = {"made by: a formula", "note: none of it is measured"};
  table.llm = "some-70b";
  table.gpu = "h100";
  for (const char* name : {"SS", "LL"}) {
    const ShardClass one = testing::formula_class(name, name[0] == 'S' ? 0.5 : 2.3, 1.0);
    table.classes.push_back({name, 181.25, 55.5, one.limits, one.profiles, 0.75});
  }
  return table;
}

std::string error_of(const std::string& text) {
  const auto table = parse_load_table(text, "x.profile");
  return table ? "" : table.error().message();
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

/// The text with a checksum that fits it.
std::string signed_again(const std::string& text) {
  const auto body = text.find("# llm");
  LoadTable empty;
  const auto form = to_text(empty).substr(0, to_text(empty).find('\n') + 1);
  Digest digest;
  digest.add_text(std::string_view(text).substr(body));
  return form + fmt::format("checksum {:016x}\n", digest.value()) + text.substr(body);
}

TEST(LoadTable, ComesBackAsItWas) {
  LoadTable table = formula_table();
  table.classes[0].limits.tbt = Span::from_seconds(86400.0 * 1000.0);  // a day, in a tier of factor 1000
  const auto again = parse_load_table(to_text(table), "x.profile");
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(again->provenance, table.provenance);
  ASSERT_EQ(again->classes.size(), 2U);
  EXPECT_EQ(*again, table);
}

TEST(LoadTable, WhatItsMakerSaysIsNotTakenForItsHead) {
  LoadTable table = formula_table();
  table.tiers = 2;
  table.provenance = {"made by: a formula", "llm: another", "gpu: another", "tiers: 7"};
  const auto again = parse_load_table(to_text(table), "x.profile");
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(*again, table);
}

TEST(LoadTable, TablesOfOtherTpDegreesMakeOne) {
  const LoadTable whole = formula_table();
  const auto part = [&](auto keep) {
    LoadTable some = whole;
    for (auto& one : some.classes) std::erase_if(one.profiles, [&](const ShardProfile& p) { return !keep(p.tp); });
    return some;
  };
  LoadTable made = part([](int tp) { return tp > 2; });
  const LoadTable more = part([](int tp) { return tp <= 2; });
  ASSERT_FALSE(more.classes[0].profiles.empty());
  ASSERT_TRUE(merge(made, more, "x").has_value());
  EXPECT_EQ(made.classes, whole.classes);
  EXPECT_EQ(made.provenance.size(), 2 * whole.provenance.size());
  EXPECT_NE(merge(made, more, "x").error().what.find("has TP"), std::string::npos);
  LoadTable other = part([](int tp) { return tp > 2; });
  other.classes[1].limits.tbt = Span::ms(1);
  EXPECT_NE(merge(other, more, "x").error().what.find("another scenario"), std::string::npos);
  other = part([](int tp) { return tp > 2; });
  other.gpu = "b200";
  EXPECT_NE(merge(other, more, "x").error().what.find("not of some-70b on b200"), std::string::npos);
}

TEST(LoadTable, SaysWhatIsWrongWithAFile) {
  const std::string good = to_text(formula_table());
  EXPECT_EQ(error_of(good), "");
  EXPECT_NE(error_of("clock,power\n").find("begins with 'wattle load profile 2'"), std::string::npos);
  EXPECT_NE(error_of(replaced(good, "profile 2", "profile 7")).find("version 7; this program reads version 2"),
            std::string::npos);
  EXPECT_NE(error_of(replaced(good, ",1980,", ",1981,")).find("checksum"), std::string::npos);
  EXPECT_NE(error_of(good.substr(0, good.size() - 40)).find("checksum"), std::string::npos);
  // One clock of one class away: a hole. All of one load: it does not ascend from 0.
  std::string hole;
  for (std::size_t at = 0; at < good.size();) {
    const auto end = good.find('\n', at) + 1;
    const std::string line = good.substr(at, end - at);
    if (!(line.starts_with("LL,") && line.find(",4,1200,") != std::string::npos)) hole += line;
    at = end;
  }
  EXPECT_NE(error_of(signed_again(hole)).find("has a hole: LL at TP4 and 1200 MHz"), std::string::npos)
      << error_of(signed_again(hole));
  EXPECT_NE(error_of(signed_again(replaced(good, ",800,0,", ",800,0.1,"))).find("the first load must be 0"),
            std::string::npos);
  EXPECT_NE(error_of(signed_again(replaced(good, ",0.75,", ",1.5,"))).find("kept_alone"), std::string::npos)
      << error_of(signed_again(replaced(good, ",0.75,", ",1.5,")));
  EXPECT_NE(error_of(signed_again(replaced(good, "LL,181.25", "LL,many"))).find("x.profile:"), std::string::npos);
}

TEST(LoadTable, AnInstanceAsksItsOwnDegree) {
  const LoadTable table = formula_table();
  const TableProfile tp4(table, 4);
  const ProfiledClass& ll = table.classes[1];
  EXPECT_DOUBLE_EQ(tp4.max_load_per_s(ClassId(1), MegaHertz(1980)), most_load(ll, 4, MegaHertz(1980)));
  EXPECT_GT(most_load(ll, 8, MegaHertz(1980)), most_load(ll, 4, MegaHertz(1980)));
  // Between two clocks profiled: the higher.
  EXPECT_EQ(tp4.max_load_per_s(ClassId(0), MegaHertz(1100)), tp4.max_load_per_s(ClassId(0), MegaHertz(1200)));
  EXPECT_EQ(tp4.max_load_per_s(ClassId(2), MegaHertz(1980)), 0.0);
  const double load = 0.4 * tp4.max_load_per_s(ClassId(1), MegaHertz(1980));
  const auto idle = tp4.at(ClassId(1), 0.0, MegaHertz(1980));
  const auto some = tp4.at(ClassId(1), load, MegaHertz(1980));
  EXPECT_GT(some.power, idle.power);
  EXPECT_GE(some.ttft, idle.ttft);
  EXPECT_EQ(top_clock(ll, 4), MegaHertz(1980));
  EXPECT_EQ(top_clock(ll, 3), MegaHertz(0));
  // The lowest clock that carries a load, not below the one asked for.
  EXPECT_LT(tp4.clock_for(ClassId(1), load, MegaHertz(0)), MegaHertz(1980));
  EXPECT_GE(tp4.max_load_per_s(ClassId(1), tp4.clock_for(ClassId(1), load, MegaHertz(0))), load);
  EXPECT_EQ(tp4.clock_for(ClassId(1), load, MegaHertz(1980)), MegaHertz(1980));
  EXPECT_EQ(tp4.clock_for(ClassId(1), 1e6, MegaHertz(0)), MegaHertz(1980)) << "none does";
  EXPECT_EQ(tp4.clock_for(ClassId(2), load, MegaHertz(700)), MegaHertz(700)) << "nothing is known";
}

TEST(ShardProfile, WhatIsKeptFreeIsNotPlannedWith) {
  const LoadTable table = formula_table();
  for (const ProfiledClass& one : table.classes) {
    for (const ShardProfile& profile : one.profiles) {
      const auto most = most_load(profile, one.limits);
      const ShardProfile kept = keep_free(profile, one.limits, 0.2);
      if (!most || *most <= 0.0) {
        EXPECT_EQ(kept, profile);
        continue;
      }
      EXPECT_NEAR(most_load(kept, one.limits).value(), 0.8 * *most, 1e-9);
      const auto before = at_load(profile, 0.5 * *most), after = at_load(kept, 0.5 * *most);
      EXPECT_NEAR(after->power.value(), before->power.value(), 1e-6) << "power is that of the load there is";
      EXPECT_EQ(keep_free(profile, one.limits, 0.0), profile);
    }
  }
}

}  // namespace
}  // namespace wattle::plan
