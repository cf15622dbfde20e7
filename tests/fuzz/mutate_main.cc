// The deterministic driver: iteration I of seed S is always the same input. `--seed S --only I` runs one again.
#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "base/random.h"
#include "fuzz.h"
#include "mutate.h"

namespace {
char now_running[96] = "";  ///< the text of a crash's message; filled beforehand, since a handler may not format

extern "C" void on_crash(int number) {
  static constexpr char kText[] = "crashed: repeat with ";
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  (void)!::write(STDERR_FILENO, now_running, std::strlen(now_running));
  (void)!::write(STDERR_FILENO, "\n", 1);
  (void)std::signal(number, SIG_DFL);
  (void)std::raise(number);
}

std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : s) {
    if (c == '\n') {
      out += "\\n\n";
    } else if (c >= ' ' && c < '\x7f') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

int complain(const std::string& which, const std::string& rule, const std::string& input) {
  fmt::print(stderr, "rule broken: {}\n  input: {}\n{}\n", rule, which, escaped(input));
  return 1;
}

std::optional<std::uint64_t> number_after(int argc, char** argv, const char* flag) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], flag) == 0) return std::strtoull(argv[i + 1], nullptr, 10);
  }
  return std::nullopt;
}
}  // namespace

int main(int argc, char** argv) {
  using namespace wattle;
  const std::uint64_t seed = number_after(argc, argv, "--seed").value_or(1);
  const auto only = number_after(argc, argv, "--only");
  const std::uint64_t first = only.value_or(0);
  const std::uint64_t end = only ? *only + 1 : number_after(argc, argv, "--iterations").value_or(200'000);
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL}) (void)std::signal(number, on_crash);

  const auto seeds = fuzz::seeds();
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    const fuzz::Verdict verdict = fuzz::parse(seeds[i]);
    const std::string which = fmt::format("valid input {}", i);
    if (!verdict.broken_rule.empty()) return complain(which, verdict.broken_rule, seeds[i]);
    if (!verdict.accepted) return complain(which, "a valid input is rejected", seeds[i]);
  }

  std::uint64_t accepted = 0;
  for (std::uint64_t i = first; i < end; ++i) {
    *fmt::format_to_n(now_running, sizeof now_running - 1, "--seed {} --only {}", seed, i).out = '\0';
    RandomStream random(seed, fmt::format("fuzz.{}", i));
    const std::string input = fuzz::mutate(seeds, random);
    const fuzz::Verdict verdict = fuzz::parse(input);
    if (!verdict.broken_rule.empty()) return complain(now_running, verdict.broken_rule, input);
    accepted += verdict.accepted ? 1U : 0U;
  }
  fmt::print("seed {}: {} inputs, {} accepted, {} rejected\n", seed, end - first, accepted, end - first - accepted);
  // Mutations that are all refused, or all let through, test nothing.
  if (!only && (accepted == 0 || accepted == end - first)) return complain("all", "one verdict for every input", "");
  return 0;
}
