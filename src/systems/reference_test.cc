// The committed reference pages, the registry's records, and a recipe's effective values' way back.
#include "systems/reference.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/file.h"
#include "config/test_texts.h"
#include "systems/recipe_options.h"
#include "systems/registry.h"

namespace wattle::systems {
namespace {

TEST(Reference, CommittedPagesAreTheGeneratedOnes) {
  for (const config::ReferencePage& page : reference_pages()) {
    const auto committed = read_file(WATTLE_SOURCE_DIR "/docs/reference/" + page.name + ".md");
    ASSERT_TRUE(committed) << committed.error().message();
    EXPECT_EQ(*committed, page.text) << "run `wattle config reference --out docs/reference`";
  }
}

TEST(Registry, EveryPolicysOptionsAreUniqueDescribedAndHaveLegalDefaults) {
  for (const PolicyEntry& entry : registry().entries()) {
    std::set<std::string> keys;
    EXPECT_FALSE(entry.description.empty()) << entry.name;
    for (const auto& option : entry.options) {
      EXPECT_TRUE(keys.insert(option.key).second) << entry.name << ": " << option.key << " has two records";
      EXPECT_FALSE(option.description.empty()) << entry.name << ": " << option.key;
      const config::Value standard = option.get(entry.defaults);
      if (std::holds_alternative<std::monostate>(standard)) continue;
      const auto legal = config::checked(option, config::Entry{option.key, standard, "", "default"});
      EXPECT_TRUE(legal) << entry.name << ": " << legal.error().message();
    }
  }
}

TEST(Registry, APolicyHasOneEntryASlot) {
  std::set<std::pair<SlotKind, std::string>> seen;
  for (const PolicyEntry& entry : registry().entries()) EXPECT_TRUE(seen.insert({entry.slot, entry.name}).second);
}

std::string without_notes(std::string text) {
  for (const std::string note : {"  # default", ", the default"}) {
    for (auto at = text.find(note); at != std::string::npos; at = text.find(note)) text.erase(at, note.size());
  }
  return text;
}

TEST(Effective, PrintedValuesLoadToTheSameValues) {
  const config::Project project = config::testing::project();
  for (const std::string& name : project.names(config::Project::Kind::Recipe)) {
    const auto loaded = load_recipe(name, {}, project);
    ASSERT_TRUE(loaded) << loaded.error().message();
    const std::string text = effective_text(*loaded);
    const auto again = recipe_from_text(text, "again.toml", {});
    ASSERT_TRUE(again) << again.error().message() << "\n" << text;
    EXPECT_EQ(without_notes(effective_text(*again)), without_notes(text));
    EXPECT_EQ(config::kind_of(text, "again.toml", recipe_keys()).value(), config::FileKind::Recipe);
  }
}

}  // namespace
}  // namespace wattle::systems
