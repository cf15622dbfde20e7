#include "fidelity/seen_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace wattle::fidelity {
namespace {

TEST(SeenRows, another_measurement_of_a_fitted_condition_was_never_seen) {
  Experiment e;
  e.set = "made-up/sweep";
  e.row = "tp=1 mhz=1410";
  e.gpu = "h100";
  e.quantities = {{"power_w", 321.5}};
  e.fitted = true;
  SeenRows seen;
  seen.add(e);
  const auto again = SeenRows::parse(seen.text(), "seen.txt");
  ASSERT_TRUE(again) << again.error().message();
  std::vector<Experiment> rows(5, e);
  rows[1].set = "made-up/renamed";
  rows[2].quantities[0].measured = 322.5;
  rows[3].gpu = "h200";
  rows[4].row = "tp=1 mhz=1395";
  rows[4].in_view = true;
  keep_seen(rows, *again);
  EXPECT_TRUE(rows[0].fitted && rows[1].fitted);
  EXPECT_FALSE(rows[2].fitted || rows[3].fitted || rows[4].fitted || rows[4].in_view);
  e.fitted = false;  // on the list, but not used by a fit: stays so
  std::vector<Experiment> held{e};
  keep_seen(held, *again);
  EXPECT_FALSE(held[0].fitted);
}

TEST(SeenRows, a_list_of_many_is_read_as_written_and_a_wrong_word_is_named_by_line) {
  SeenRows seen;
  for (int i = 0; i < 100; ++i) {
    Experiment e;
    e.row = fmt::format("row {}", i);
    seen.add(e);
  }
  const auto again = SeenRows::parse(seen.text(), "seen.txt");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->size(), 100U);
  EXPECT_EQ(again->text(), seen.text());
  for (const char* wrong : {"# all\n0123abcd 0123\n", "# all\n0123abcx\n"}) {
    const auto bad = SeenRows::parse(wrong, "seen.txt");
    ASSERT_FALSE(bad);
    EXPECT_NE(bad.error().message().find("seen.txt:2"), std::string::npos) << bad.error().message();
  }
}

}  // namespace
}  // namespace wattle::fidelity
