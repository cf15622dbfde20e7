#pragma once
// Flags and subcommands. CLI11 does the work behind command_line.cc: compiling it takes several seconds, so that one
// file includes it and the subcommands do not.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace wattle::config {
struct FlagText;
}

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace wattle::apps {

/// Prints "wattle: where: what" to stderr and returns the exit code for this kind of error.
int fail(const Error& error);

/// A condition on a flag's value. The help shows it; a value that fails is a usage error.
class Check {
 public:
  explicit Check(CLI::Validator&& validator);
  [[nodiscard]] const CLI::Validator& validator() const { return *validator_; }

 private:
  std::shared_ptr<const CLI::Validator> validator_;
};
[[nodiscard]] Check range(int least, int most);
[[nodiscard]] Check range(unsigned least, unsigned most);
[[nodiscard]] Check range(double least, double most);
[[nodiscard]] Check positive();
[[nodiscard]] Check non_negative();
/// The same of a time in seconds or milliseconds, of 1e9 at most: 32 years, which leaves room for sums.
[[nodiscard]] Check positive_time();
[[nodiscard]] Check non_negative_time();
[[nodiscard]] Check not_empty();
[[nodiscard]] Check one_of(std::vector<std::string> names);

/// One flag or positional argument, as declared; belongs to its command.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}
  Flag& required();
  Flag& check(const Check& check);
  Flag& capture_default_str();  ///< help shows the variable's value of now
  Flag& default_str(const std::string& text);
  Flag& delimiter(char between);  ///< of a list given as one argument
  Flag& excludes(const Flag& other);
  Flag& description(const std::string& help);

 private:
  CLI::Option* option_;
};

/// The program, or one of its subcommands. A handle: copies mean the same command, which lives as long as the program.
/// Variables bound to flags outlive the parsing.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}
  Command add_subcommand(const std::string& name, const std::string& help);
  /// `T`: those that command_line.cc instantiates it for.
  template <typename T>
  Flag add_option(const std::string& name, T& into, const std::string& help = "");
  Flag add_option_function(const std::string& name, const std::function<void(double)>& take, const std::string& help);
  /// `take` gets a value that passed `problem` (which returns what is wrong, or "").
  Flag add_text_option(const std::string& name, const std::function<void(const std::string&)>& take,
                       const std::function<std::string(const std::string&)>& problem, const std::string& help);
  Flag add_flag(const std::string& name, bool& into, const std::string& help);
  [[nodiscard]] Flag get_option(const std::string& name) const;
  void require_subcommand();  ///< exactly one
  void hide();                ///< not in the parent's help
  void callback(std::function<void()> run);

 private:
  CLI::App* app_;
};

/// The flags that the file named by a subcommand's --config gives it. `node`: that of --node, or empty.
using FlagsOfFile = std::function<Result<void>(const std::string& subcommand, const std::string& file,
                                               const std::string& node, std::vector<config::FlagText>& to)>;

/// Declares a program's subcommands and parses the arguments, which runs the callback of the chosen subcommand. Flags
/// of the command line take precedence over those of a file. Adds `man` and `completion`. Returns the exit code:
/// `exit_code` after the callback, 0 after --help, 2 for wrong usage, 1 for an exception of a callback.
int run_program(const std::string& name, const std::string& help, std::span<char* const> arguments,
                const std::function<void(Command, int& exit_code)>& declare, const FlagsOfFile& flags_of_file);

}  // namespace wattle::apps
