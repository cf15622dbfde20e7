#include "command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <type_traits>

#include "base/file.h"
#include "command_pages.h"
#include "config/deployment.h"
#include "config/fill.h"
#include "net/log.h"

namespace wattle::apps {

namespace {

using Words = std::vector<std::string>;

/// Flags of the present run that came from the file of --config.
std::vector<config::FlagText> given_by_file;

/// With the file's line where that is what stated the flag.
Error located(Error error) {
  const config::FlagText* line = nullptr;
  for (const config::FlagText& flag : given_by_file) {
    if (error.where != flag.name && !error.where.starts_with(flag.name + " ")) continue;
    // Of several the one that the error cites.
    const std::string cited = flag.value.substr(0, flag.value.find_first_of("=,"));
    if (line == nullptr || error.message().find(cited) != std::string::npos) line = &flag;
  }
  if (line != nullptr) error.where = line->where + ": " + error.where;
  return error;
}

}  // namespace

int fail(const Error& error) {
  net::say("wattle: " + located(error).message());
  switch (error.kind) {
    case ErrorKind::BadInput:
      return 2;
    case ErrorKind::Failed:
      return 1;
    case ErrorKind::External:
      return 3;
  }
  return 1;
}

Check::Check(CLI::Validator&& validator) : validator_(std::make_shared<const CLI::Validator>(std::move(validator))) {}
Check range(int least, int most) { return Check(CLI::Range(least, most)); }
Check range(unsigned least, unsigned most) { return Check(CLI::Range(least, most)); }
Check range(double least, double most) { return Check(CLI::Range(least, most)); }

namespace {

/// CLI11's own say all the digits of the largest number there is.
Check number_that(const char* name, bool (*holds)(double), const char* right) {
  const auto problem = [holds, right](std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    return end != text.c_str() && *end == '\0' && holds(value) ? std::string() : text + " is not " + right;
  };
  return Check(CLI::Validator(problem, name));
}

}  // namespace

Check positive() {
  return number_that(
      "POSITIVE", [](double v) { return v > 0.0; }, "a number above 0");
}
Check non_negative() {
  return number_that(
      "NONNEGATIVE", [](double v) { return v >= 0.0; }, "a number of 0 or more");
}
Check positive_time() {
  return number_that(
      "POSITIVE", [](double v) { return v > 0.0 && v <= 1e9; }, "a number above 0, of 1e9 at most");
}
Check non_negative_time() {
  return number_that(
      "NONNEGATIVE", [](double v) { return v >= 0.0 && v <= 1e9; }, "a number of 0 or more, of 1e9 at most");
}
Check not_empty() {
  return Check(
      CLI::Validator([](std::string& text) { return text.empty() ? std::string("is empty") : std::string(); }, "NAME"));
}
Check one_of(std::vector<std::string> names) { return Check(CLI::IsMember(std::move(names))); }

Flag& Flag::required() {
  option_->required();
  return *this;
}

Flag& Flag::check(const Check& check) {
  option_->check(check.validator());
  return *this;
}

Flag& Flag::capture_default_str() {
  option_->capture_default_str();
  return *this;
}

Flag& Flag::default_str(const std::string& text) {
  option_->default_str(text);
  return *this;
}

Flag& Flag::delimiter(char between) {
  option_->delimiter(between);
  return *this;
}

Flag& Flag::excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

Flag& Flag::description(const std::string& help) {
  option_->description(help);
  return *this;
}

Command Command::add_subcommand(const std::string& name, const std::string& help) {
  return Command(*app_->add_subcommand(name, help));
}

namespace {

template <typename T>
struct ValueOf {
  using Type = T;
};
template <typename T>
struct ValueOf<std::optional<T>> : ValueOf<T> {};
template <typename T>
struct ValueOf<std::vector<T>> : ValueOf<T> {};

/// What CLI11 takes, or does not say: -1 for the largest number there is, numbers that are none; why a port is none.
template <typename T>
std::string flaw_of(const std::string& text) {
  char* end = nullptr;
  if constexpr (std::is_floating_point_v<T>) {
    const double value = std::strtod(text.c_str(), &end);
    if (end != text.c_str() && !std::isfinite(value)) return text + " is not a finite number";
  } else if constexpr (std::is_same_v<T, std::uint16_t>) {
    const double value = std::strtod(text.c_str(), &end);
    if (end != text.c_str() && !(value >= 0 && value <= 65'535)) return text + " is not from 0 to 65535";
  } else if constexpr (std::is_unsigned_v<T>) {
    if (text.starts_with('-')) return text + " is below 0";
  }
  return "";
}

template <typename T>
constexpr bool kIsList = false;
template <typename T>
constexpr bool kIsList<std::vector<T>> = true;

template <typename T>
Flag checked(CLI::Option* option) {
  // A list grows by repeating its flag: what follows one value may be a positional argument.
  if constexpr (kIsList<T>) {
    if (!option->get_positional()) option->allow_extra_args(false);
  }
  option->check(CLI::Validator([](std::string& text) { return flaw_of<typename ValueOf<T>::Type>(text); }, ""));
  return Flag(option);
}

}  // namespace

template <typename T>
Flag Command::add_option(const std::string& name, T& into, const std::string& help) {
  return checked<T>(app_->add_option(name, into, help));
}
template Flag Command::add_option(const std::string&, std::string&, const std::string&);
template Flag Command::add_option(const std::string&, double&, const std::string&);
template Flag Command::add_option(const std::string&, std::int32_t&, const std::string&);
template Flag Command::add_option(const std::string&, std::int64_t&, const std::string&);
template Flag Command::add_option(const std::string&, std::uint16_t&, const std::string&);
template Flag Command::add_option(const std::string&, std::uint32_t&, const std::string&);
template Flag Command::add_option(const std::string&, std::uint64_t&, const std::string&);
template Flag Command::add_option(const std::string&, std::optional<double>&, const std::string&);
template Flag Command::add_option(const std::string&, std::optional<std::uint64_t>&, const std::string&);
template Flag Command::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Flag Command::add_option(const std::string&, std::vector<double>&, const std::string&);
template Flag Command::add_option(const std::string&, std::vector<std::int32_t>&, const std::string&);
template Flag Command::add_option(const std::string&, std::vector<std::uint64_t>&, const std::string&);

Flag Command::add_option_function(const std::string& name, const std::function<void(double)>& take,
                                  const std::string& help) {
  return checked<double>(app_->add_option_function<double>(name, take, help));
}

Flag Command::add_text_option(const std::string& name, const std::function<void(const std::string&)>& take,
                              const std::function<std::string(const std::string&)>& problem, const std::string& help) {
  CLI::Option* option = app_->add_option_function<std::string>(name, take, help);
  option->check(CLI::Validator([problem](std::string& text) { return problem(text); }, ""));
  return Flag(option);
}

Flag Command::add_flag(const std::string& name, bool& into, const std::string& help) {
  return Flag(app_->add_flag(name, into, help));
}

Flag Command::get_option(const std::string& name) const { return Flag(app_->get_option(name)); }
void Command::require_subcommand() { app_->require_subcommand(1); }
void Command::hide() { app_->group(""); }
void Command::callback(std::function<void()> run) { app_->callback(std::move(run)); }

namespace {

/// 0, or 3 if the output could not be written completely: a full disk, a closed pipe.
int output_failure(const std::string& name) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  net::say(name + ": standard output: cannot be written");
  return 3;
}

/// The value of one of these flags, as `--flag value` or `--flag=value`; none: not given.
std::optional<std::string> given(const Words& words, const Words& flags) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (const std::string& flag : flags) {
      if (words[i] == flag) return i + 1 < words.size() ? words[i + 1] : "";
      if (words[i].starts_with(flag + "=")) return words[i].substr(flag.size() + 1);
    }
  }
  return std::nullopt;
}

/// As a whole word: --admin is not --admin-user.
bool names(const std::string& text, const std::string& flag) {
  const auto in_name = [](char c) { return c == '-' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = text.find(flag); at != std::string::npos; at = text.find(flag, at + 1)) {
    const std::size_t end = at + flag.size();
    if ((at == 0 || !in_name(text[at - 1])) && (end == text.size() || !in_name(text[end]))) return true;
  }
  return false;
}

/// The flags of --config's file behind the words given, but for those that are given.
Result<std::vector<config::FlagText>> add_flags_of_file(CLI::App& app, Words& words, const FlagsOfFile& flags_of_file) {
  std::vector<config::FlagText> added;
  const auto named =
      app.get_subcommands([&](const CLI::App* sub) { return !words.empty() && sub->get_name() == words.front(); });
  const CLI::App* chosen = named.empty() ? nullptr : named.front();
  if (chosen == nullptr || chosen->get_option_no_throw("--config") == nullptr) return added;
  const auto file = given(words, {"--config"});
  if (!file) return added;
  std::vector<config::FlagText> all;
  if (auto ok = flags_of_file(words.front(), *file, given(words, {"--node"}).value_or(""), all); !ok) {
    return std::unexpected(ok.error());
  }
  const Words on_line = words;
  for (config::FlagText& flag : all) {
    // Flags that select or inspect the configuration are not allowed in a file.
    for (const char* name : {"--config", "--node", "--help", "--check"}) {
      if (flag.name == name) return bad_input(flag.where, fmt::format("{} is only for the command line", name));
    }
    const CLI::Option* option = chosen->get_option_no_throw(flag.name);
    if (option == nullptr) {
      Words known;
      for (const CLI::Option* one : chosen->get_options()) {
        for (const auto& name : one->get_lnames()) known.push_back("--" + name);
      }
      const std::string near = config::nearest(flag.name, known);
      return bad_input(flag.where, fmt::format("`{} {}` has no flag {}{}", app.get_name(), words.front(), flag.name,
                                               near.empty() ? "" : "; did you mean " + near + "?"));
    }
    Words names;
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    if (given(on_line, names)) continue;
    words.push_back(flag.name + "=" + flag.value);
    added.push_back(std::move(flag));
  }
  return added;
}

/// Pages that are made of the declarations themselves.
void declare_pages(CLI::App& app, int& exit_code) {
  struct Flags {
    std::string out;
    std::string command;
    std::string shell;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* man = app.add_subcommand("man", "Print a manual page, or write all of them");
  man->add_option("COMMAND", flags->command, "Subcommand; default: the program itself");
  man->add_option("-o,--out", flags->out, "Write every page into this folder");
  man->callback([&app, &exit_code, flags] {
    bool found = false;
    for (const ManualPage& page : manual_pages(app, WATTLE_VERSION)) {
      if (!flags->out.empty()) {
        std::error_code none;  // why it cannot be made, writing says
        std::filesystem::create_directories(flags->out, none);
        if (auto ok = write_file(flags->out + "/" + page.name + ".1", page.text); !ok) {
          exit_code = fail(ok.error());
          return;
        }
      } else if (page.name == app.get_name() + (flags->command.empty() ? "" : "-" + flags->command)) {
        fmt::print("{}", page.text);
        found = true;
      }
    }
    if (flags->out.empty() && !found) {
      exit_code = fail(Error{ErrorKind::BadInput, "man " + flags->command, "there is no such subcommand"});
    }
  });
  CLI::App* completion = app.add_subcommand("completion", "Print a script that completes this program's commands");
  completion->add_option("SHELL", flags->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([&app, flags] { fmt::print("{}", completion_script(app, flags->shell)); });
}

}  // namespace

int run_program(const std::string& name, const std::string& help, std::span<char* const> arguments,
                const std::function<void(Command, int& exit_code)>& declare, const FlagsOfFile& flags_of_file) try {
  CLI::App app{help};
  app.name(name);
  app.set_version_flag("--version", name + " " + WATTLE_VERSION, "Print the version");
  app.require_subcommand(1);
  int exit_code = 0;
  declare(Command(app), exit_code);
  declare_pages(app, exit_code);
  Words words(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  const auto of_file = add_flags_of_file(app, words, flags_of_file);
  if (!of_file) return fail(of_file.error());
  given_by_file = *of_file;
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::Success& asked) {  // --help, --version
    const int code = app.exit(asked);
    return code == 0 ? output_failure(name) : code;
  } catch (const CLI::RequiredError& error) {
    if (Words rest = app.remaining();
        app.get_subcommands().empty() && !rest.empty() && !rest.front().starts_with("-")) {
      return fail(Error{ErrorKind::BadInput, rest.front(), "there is no such subcommand; `wattle --help` lists them"});
    }
    // Missing flags are reported before surplus arguments, but unknown flags first: they are the likelier mistake.
    Words unknown = app.remaining(true);
    std::erase_if(unknown, [](const std::string& word) { return !word.starts_with("-"); });
    unknown.empty() ? app.exit(error) : app.exit(CLI::ExtrasError(name, unknown));
    return 2;
  } catch (const CLI::ParseError& error) {
    const std::string what = error.what();
    const auto line =
        std::ranges::find_if(*of_file, [&](const config::FlagText& flag) { return names(what, flag.name); });
    if (line != of_file->end()) return fail(Error{ErrorKind::BadInput, line->where, what});
    app.exit(error);
    return 2;
  }
  return exit_code != 0 ? exit_code : output_failure(name);
} catch (const std::exception& error) {
  if (std::ferror(stdout) != 0) return output_failure(name);  // fmt throws then
  net::say(name + ": " + error.what());
  return 1;
}

}  // namespace wattle::apps
