#include "command_pages.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace wattle::apps {

namespace {

/// Text as roff shows it: dashes that can be copied, no line taken for a request.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::vector<const CLI::App*> shown_subcommands(const CLI::App& app) {
  auto all = app.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
  return {all.begin(), all.end()};
}

std::vector<const CLI::Option*> shown_options(const CLI::App& app) {
  auto all = app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
  return {all.begin(), all.end()};
}

std::string flags_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& s : option.get_snames()) names.push_back("-" + s);
  for (const auto& l : option.get_lnames()) names.push_back("--" + l);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

void write_options(const CLI::App& app, std::string& out) {
  for (const CLI::Option* option : shown_options(app)) {
    const std::string flags = flags_of(*option);
    const std::string name = flags.empty() ? option->get_single_name() : flags;
    out +=
        fmt::format(".TP\n\\fB{}\\fR{}\n{}", roff(name), takes_value(*option) && !flags.empty() ? " \\fIVALUE\\fR" : "",
                    roff(option->get_description().empty() ? " " : option->get_description()));
    if (!option->get_default_str().empty()) out += fmt::format(" (default {})", roff(option->get_default_str()));
    if (option->get_required()) out += " (required)";
    out += "\n";
  }
}

std::string page_of(const CLI::App& app, const std::string& call, const std::string& version) {
  std::string page = call;
  std::ranges::replace(page, ' ', '-');
  std::string title = page;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string out = fmt::format(".TH {} 1 \"\" \"wattle {}\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n", title,
                                version, roff(page), roff(app.get_description()), call);
  const auto subcommands = shown_subcommands(app);
  out += subcommands.empty() ? "[\\fIOPTIONS\\fR]\n" : "\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n";
  out += ".SH OPTIONS\n";
  write_options(app, out);
  return out;
}

void add_commands(const CLI::App& app, const std::string& call, std::string& out) {
  for (const CLI::App* sub : shown_subcommands(app)) {
    const std::string inner = call + " " + sub->get_name();
    out += fmt::format(".SH {}\n{}\n", roff(inner), roff(sub->get_description()));
    write_options(*sub, out);
    add_commands(*sub, inner, out);
  }
}

/// The words that may follow: subcommands and flags.
std::string words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub : shown_subcommands(app)) words.push_back(sub->get_name());
  for (const CLI::Option* option : shown_options(app)) {
    for (const auto& l : option->get_lnames()) words.push_back("--" + l);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

void bash_cases(const CLI::App& app, const std::string& path, std::string& out) {
  out += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, words_of(app));
  for (const CLI::App* sub : shown_subcommands(app)) {
    bash_cases(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), out);
  }
}

std::string bash_script(const CLI::App& program) {
  const std::string name = program.get_name();
  std::string subcommands;
  const std::function<void(const CLI::App&)> collect = [&](const CLI::App& app) {
    for (const CLI::App* sub : shown_subcommands(app)) {
      subcommands += (subcommands.empty() ? "" : "|") + sub->get_name();
      collect(*sub);
    }
  };
  collect(program);
  std::string cases;
  bash_cases(program, "", cases);
  return fmt::format(R"(# Completion of {0}, made by `{0} completion`.
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} path="" word words=""
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$word" in
      {1}) path="${{path:+$path }}$word" ;;
    esac
  done
  case "$path" in
{2}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ $current == -* ]] || COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -F _{0} {0}
)",
                     name, subcommands, cases);
}

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_script(const CLI::App& program) {
  const std::string name = program.get_name();
  std::string out = fmt::format("# Completion of {0}, made by `{0} completion`.\n", name);
  for (const CLI::App* sub : shown_subcommands(program)) {
    out += fmt::format("complete -c {} -n __fish_use_subcommand -a {} -d {}\n", name, sub->get_name(),
                       fish_quoted(sub->get_description()));
    const std::string here = fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'", name, sub->get_name());
    for (const CLI::App* inner : shown_subcommands(*sub)) {
      out += fmt::format("{} -a {} -d {}\n", here, inner->get_name(), fish_quoted(inner->get_description()));
    }
    for (const CLI::Option* option : shown_options(*sub)) {
      for (const auto& l : option->get_lnames()) {
        out += fmt::format("{} -l {}{} -d {}\n", here, l, takes_value(*option) ? " -r" : "",
                           fish_quoted(option->get_description()));
      }
    }
  }
  return out;
}

}  // namespace

std::vector<ManualPage> manual_pages(const CLI::App& program, const std::string& version) {
  const std::string name = program.get_name();
  std::string text = page_of(program, name, version) + ".SH COMMANDS\n";
  std::vector<ManualPage> pages(1);
  for (const CLI::App* sub : shown_subcommands(program)) {
    const std::string call = name + " " + sub->get_name();
    text += fmt::format(".TP\n\\fB{}\\fR\n{}; see {}(1)\n", roff(call), roff(sub->get_description()),
                        roff(name + "-" + sub->get_name()));
    std::string page = page_of(*sub, call, version);
    add_commands(*sub, call, page);
    pages.push_back({name + "-" + sub->get_name(), page + fmt::format(".SH SEE ALSO\n{}(1)\n", name)});
  }
  pages.front() = {name, std::move(text)};
  return pages;
}

std::string completion_script(const CLI::App& program, const std::string& shell) {
  if (shell == "fish") return fish_script(program);
  const std::string bash = bash_script(program);
  return shell == "zsh" ? "#compdef wattle\nautoload -U +X bashcompinit && bashcompinit\n" + bash : bash;
}

}  // namespace wattle::apps
