#include "command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

namespace wattle::apps {

Check::Check(CLI::Validator&& validator) : validator_(std::make_shared<const CLI::Validator>(std::move(validator))) {}
Check range(int least, int most) { return Check(CLI::Range(least, most)); }
Check range(unsigned least, unsigned most) { return Check(CLI::Range(least, most)); }
Check range(double least, double most) { return Check(CLI::Range(least, most)); }
Check positive() { return Check(CLI::Validator(CLI::PositiveNumber)); }
Check non_negative() { return Check(CLI::Validator(CLI::NonNegativeNumber)); }
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

Flag& Flag::allow_extra_args(bool allowed) {
  option_->allow_extra_args(allowed);
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

template <typename T>
Flag Command::add_option(const std::string& name, T& into, const std::string& help) {
  return Flag(app_->add_option(name, into, help));
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
template Flag Command::add_option(const std::string&, std::vector<std::int32_t>&, const std::string&);
template Flag Command::add_option(const std::string&, std::vector<std::uint64_t>&, const std::string&);

Flag Command::add_option_function(const std::string& name, const std::function<void(double)>& take,
                                  const std::string& help) {
  return Flag(app_->add_option_function<double>(name, take, help));
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

/// 0, or 3 when what was printed could not all be written: a full disk, a closed pipe.
int output_failure(const std::string& name) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  fmt::print(stderr, "{}: standard output: cannot be written\n", name);
  return 3;
}

}  // namespace

int run_program(const std::string& name, const std::string& help, std::span<char* const> arguments,
                const std::function<void(Command, int& exit_code)>& declare) {
  CLI::App app{help};
  app.name(name);
  app.set_version_flag("--version", name + " " + WATTLE_VERSION, "Print the version");
  app.require_subcommand(1);
  int exit_code = 0;
  declare(Command(app), exit_code);
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::Success& asked) {  // --help, --version
    const int code = app.exit(asked);
    return code == 0 ? output_failure(name) : code;
  } catch (const CLI::RequiredError& error) {
    // What is missing is said before what is too much; but a flag nobody knows is the likelier mistake.
    std::vector<std::string> unknown = app.remaining(true);
    std::erase_if(unknown, [](const std::string& word) { return !word.starts_with("-"); });
    unknown.empty() ? app.exit(error) : app.exit(CLI::ExtrasError(name, unknown));
    return 2;
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return 2;
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return output_failure(name);  // fmt throws then
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
  return exit_code != 0 ? exit_code : output_failure(name);
}

}  // namespace wattle::apps
