#include "config/engine_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "config/records.h"

namespace wattle::config {
namespace {

/// As a process does that was started with them.
engine::EngineOptions parsed(const std::vector<std::string>& arguments) {
  engine::EngineOptions options;
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    const auto option = std::ranges::find(engine_options(), arguments[i], engine_flag);
    if (option == engine_options().end()) {
      ADD_FAILURE() << arguments[i];
      continue;
    }
    const auto set = set_from_flag(*option, arguments[i + 1], options);
    EXPECT_TRUE(set.has_value()) << set.error().message();
  }
  return options;
}

TEST(EngineArguments, CarryEveryOption) {
  engine::EngineOptions odd;
  const std::vector<std::string> defaults = engine_arguments(odd);
  for (const auto& option : engine_options()) {
    switch (option.type) {
      case OptionType::Boolean:
        option.set(odd, !std::get<bool>(option.get(odd)));
        break;
      case OptionType::Integer:
        option.set(odd, std::get<std::int64_t>(option.get(odd)) + 1);
        break;
      case OptionType::Number:
        option.set(odd, option.bounds.max / 4.0);
        break;
      case OptionType::Integers:
        option.set(odd, std::vector<std::int64_t>{1, 7, 300});
        break;
      case OptionType::Choice:
        option.set(odd, option.choices.back());
        break;
      default:
        FAIL() << option.key << ": give it a value here that is not its default";
    }
  }
  const std::vector<std::string> all = engine_arguments(odd);
  EXPECT_EQ(all.size(), 2 * engine_options().size()) << "none is left out";
  const engine::EngineOptions again = parsed(all);
  const engine::EngineOptions same = parsed(defaults);
  for (const auto& option : engine_options()) {
    EXPECT_EQ(option.get(again), option.get(odd)) << option.key;
    EXPECT_NE(option.get(again), option.get(engine::EngineOptions{})) << option.key;
    EXPECT_EQ(option.get(same), option.get(engine::EngineOptions{})) << option.key;
  }
}

TEST(EngineArguments, NoneUnsetsAsTheHelpSays) {
  engine::EngineOptions options;
  const auto option = std::ranges::find(engine_options(), "--step-gap-ms", engine_flag);
  ASSERT_NE(option, engine_options().end());
  ASSERT_EQ(flag_text(option->get(options)), "none") << "the default that help shows";
  ASSERT_TRUE(set_from_flag(*option, "2.5", options).has_value());
  EXPECT_TRUE(options.step_gap.has_value());
  ASSERT_TRUE(set_from_flag(*option, "none", options).has_value());
  EXPECT_FALSE(options.step_gap.has_value());
}

TEST(EngineArguments, WrongValuesNameTheirFlag) {
  engine::EngineOptions options;
  const auto option = std::ranges::find(engine_options(), "--max-num-seqs", engine_flag);
  ASSERT_NE(option, engine_options().end());
  for (const char* text : {"many", "0", "1.5", ""}) {
    const auto set = set_from_flag(*option, text, options);
    ASSERT_FALSE(set.has_value()) << text;
    EXPECT_EQ(set.error().where, "--max-num-seqs");
  }
  EXPECT_EQ(options.max_num_seqs, engine::EngineOptions{}.max_num_seqs);
}

}  // namespace
}  // namespace wattle::config
