#include "fidelity/seen_rows.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

namespace wattle::fidelity {
namespace {

constexpr std::size_t kDigits = 8;

std::uint32_t digest(const Experiment& e) {
  std::string text = e.gpu + '|' + e.row;
  for (const Quantity& q : e.quantities) text += fmt::format("|{}={:.6g}", q.name, q.measured);
  std::uint64_t h = 14695981039346656037ULL;  // FNV-1a
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return static_cast<std::uint32_t>(h ^ (h >> 32));
}

}  // namespace

Result<SeenRows> SeenRows::parse(std::string_view text, const std::string& where) {
  SeenRows seen;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      std::uint32_t value = 0;
      const char* end = word.data() + word.size();
      const auto [at, error] = std::from_chars(word.data(), end, value, 16);
      if (word.size() != kDigits || error != std::errc() || at != end) {
        return bad_input(fmt::format("{}:{}", where, number),
                         fmt::format("'{}' is no digest of a row ({} hexadecimal digits)", word, kDigits));
      }
      seen.digests_.insert(value);
    }
  }
  return seen;
}

std::string SeenRows::text() const {
  constexpr std::size_t kPerLine = 16;
  std::string made =
      "# Digests of the rows that fits of these profiles, or a hand that chose conventions, have seen; written by\n"
      "# `wattle fit`, which only adds. `wattle validate` counts every other row as never fitted.\n";
  std::size_t n = 0;
  for (const std::uint32_t value : digests_) made += fmt::format("{:08x}{}", value, ++n % kPerLine == 0 ? '\n' : ' ');
  if (n % kPerLine != 0) made.back() = '\n';
  return made;
}

void SeenRows::add(const Experiment& row) { digests_.insert(digest(row)); }

bool SeenRows::contains(const Experiment& row) const { return digests_.contains(digest(row)); }

void keep_seen(std::vector<Experiment>& rows, const SeenRows& seen) {
  for (Experiment& row : rows) {
    if (seen.contains(row)) continue;
    row.fitted = row.in_view = false;
  }
}

}  // namespace wattle::fidelity
