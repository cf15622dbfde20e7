// The records themselves, the committed reference pages, and the effective values' way back.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/file.h"
#include "config/records.h"
#include "config/reference.h"
#include "config/test_texts.h"

namespace wattle::config {
namespace {

TEST(Reference, CommittedPagesAreTheGeneratedOnes) {
  for (const ReferencePage& page : reference_pages()) {
    const auto committed = read_file(WATTLE_SOURCE_DIR "/docs/reference/" + page.name + ".md");
    ASSERT_TRUE(committed) << committed.error().message();
    EXPECT_EQ(*committed, page.text) << "run `wattle config reference --out docs/reference`";
  }
}

/// The suffix a key with this unit must end in, so that no file is ambiguous.
std::string suffix_of(const std::string& unit) {
  if (unit == "ms") return "_ms";
  if (unit == "s") return "_s";
  if (unit == "MHz") return "_mhz";
  if (unit == "W") return "_w";
  if (unit == "GB/s") return "_gb_per_s";
  if (unit == "TFLOP/s") return "_tflops";
  if (unit == "1/s") return "_per_s";
  if (unit == "g/kWh") return "_g_per_kwh";
  if (unit == "USD/h") return "_usd_per_h";
  return "";  // counts of things
}

template <typename S>
void check_records(const std::vector<Option<S>>& options) {
  std::set<std::string> keys;
  const S defaults{};
  for (const Option<S>& option : options) {
    EXPECT_TRUE(keys.insert(option.key).second) << option.key << " has two records";
    EXPECT_FALSE(option.description.empty()) << option.key;
    EXPECT_TRUE(option.key.ends_with(suffix_of(option.unit))) << option.key << " is in " << option.unit;
    EXPECT_EQ(option.type == OptionType::Choice, !option.choices.empty()) << option.key;
    if (option.required) continue;
    const Value standard = option.get(defaults);
    if (std::holds_alternative<std::monostate>(standard)) continue;
    const auto legal = checked(option, Entry{option.key, standard, "", "default"});
    EXPECT_TRUE(legal) << "default: " << legal.error().message();
  }
}

TEST(Records, EveryKeyIsUniqueDescribedNamesItsUnitAndHasALegalDefault) {
  check_records(scenario_options());
  for_each_list([](const char*, const char*, const auto& options, auto) { check_records(options); });
  check_records(gpu_options());
  check_records(llm_options());
}

template <typename S>
void check_set_then_get(const std::vector<Option<S>>& options) {
  for (const Option<S>& option : options) {
    if (option.type != OptionType::Number && option.type != OptionType::Integer) continue;
    S s{};
    const auto value = option.type == OptionType::Integer ? Value(std::int64_t{17}) : Value(0.625);
    option.set(s, value);
    EXPECT_EQ(to_text(option.get(s)), to_text(value)) << option.key;
  }
}

TEST(Records, GettersReadWhatSettersWrote) {
  check_set_then_get(scenario_options());
  for_each_list([](const char*, const char*, const auto& options, auto) { check_set_then_get(options); });
  check_set_then_get(gpu_options());
  check_set_then_get(llm_options());
}

std::string without_notes(std::string text) {
  for (const std::string note : {"  # default", ", the default"}) {
    for (auto at = text.find(note); at != std::string::npos; at = text.find(note)) text.erase(at, note.size());
  }
  return text;
}

TEST(Effective, PrintedValuesLoadToTheSameValues) {
  const Project project = testing::project();
  for (const std::string& name : project.names(Project::Kind::Scenario)) {
    const auto loaded = load_scenario(name, {}, project);
    ASSERT_TRUE(loaded) << loaded.error().message();
    const std::string text = effective_text(*loaded);
    const auto again = scenario_from_text(text, "again.toml", {}, project);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(without_notes(effective_text(*again)), without_notes(text));
    EXPECT_EQ(kind_of(text, "again.toml", {}).value(), FileKind::Scenario);
  }
}

TEST(Effective, DefaultsAreMarkedAndWrittenValuesAreNot) {
  const auto loaded = scenario_from_text(testing::kScenario, "s.toml", {}, testing::project());
  ASSERT_TRUE(loaded);
  const std::string text = effective_text(*loaded);
  EXPECT_NE(text.find("\nttft_ms = 600\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nseed = 1  # default\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n# itl_ms: none, the default\n"), std::string::npos) << text;
}

TEST(Effective, SpecFilesAreDistinguished) {
  const Project project = testing::project();
  const auto text_of = [&](Project::Kind kind, const char* name) {
    return read_file(project.find(kind, name, "test").value()).value();
  };
  EXPECT_EQ(kind_of(text_of(Project::Kind::Gpu, "h100"), "h100.toml", {}).value(), FileKind::Gpu);
  EXPECT_EQ(kind_of(text_of(Project::Kind::Llm, "opt-13b"), "opt-13b.toml", {}).value(), FileKind::Llm);
  EXPECT_EQ(kind_of("[fleet]\nrecipe = \"eco-freq\"\n[slo]\nttft_ms = 600\n", "wattle.toml", {}).value(),
            FileKind::Deployment);
  EXPECT_EQ(kind_of("[[fleet]]\ngpu = \"h100\"\n[[node]]\ngpus = 8\n", "s.toml", {}).value(), FileKind::Scenario);
  EXPECT_FALSE(kind_of("colour = 3\n", "x.toml", {}));
  EXPECT_FALSE(kind_of("", "x.toml", {}));
}

}  // namespace
}  // namespace wattle::config
