#include "mutate.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace wattle::fuzz {

namespace {
constexpr std::array<std::string_view, 24> kAwkward = {"-1",
                                                       "0",
                                                       "1",
                                                       "1.5",
                                                       "nan",
                                                       "inf",
                                                       "-inf",
                                                       "1e999",
                                                       "1e-999",
                                                       "2147483647",
                                                       "2147483648",
                                                       "9223372036854775808",
                                                       "-0",
                                                       "+1",
                                                       "0x10",
                                                       "",
                                                       " ",
                                                       "\"",
                                                       "\"\"",
                                                       ",",
                                                       "\r\n",
                                                       "99999999999999999999",
                                                       "\xef\xbb\xbf",
                                                       "\xff"};

/// A position from 0 to s.size().
std::size_t place(const std::string& s, RandomStream& random) {
  return static_cast<std::size_t>(random.below(s.size() + 1));
}

/// A short stretch of s: where it starts and how long it is.
std::pair<std::size_t, std::size_t> stretch(const std::string& s, RandomStream& random) {
  const std::size_t from = place(s, random);
  return {from, std::min<std::size_t>(s.size() - from, static_cast<std::size_t>(random.below(32)) + 1)};
}

std::vector<std::string> lines_of(const std::string& s) {
  std::vector<std::string> lines;
  std::size_t from = 0;
  while (from < s.size()) {
    const std::size_t end = std::min(s.find('\n', from), s.size() - 1);
    lines.push_back(s.substr(from, end - from + 1));
    from = end + 1;
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string s;
  for (const std::string& line : lines) s += line;
  return s;
}

void replace_number(std::string& s, RandomStream& random) {
  const std::size_t from = s.find_first_of("0123456789", place(s, random));
  if (from == std::string::npos) return;
  const std::size_t end = std::min(s.find_first_not_of("0123456789.", from), s.size());
  s.replace(from, end - from, kAwkward.at(random.below(kAwkward.size())));
}

void edit(std::string& s, const std::vector<std::string>& seeds, RandomStream& random) {
  switch (random.below(11)) {
    case 0:  // flip a bit
      if (!s.empty()) s[random.below(s.size())] ^= static_cast<char>(1U << random.below(8));
      return;
    case 1:  // overwrite a byte
      if (!s.empty()) s[random.below(s.size())] = static_cast<char>(random.below(256));
      return;
    case 2:  // insert a byte
      s.insert(place(s, random), 1, static_cast<char>(random.below(256)));
      return;
    case 3:  // cut the tail
      s.resize(place(s, random));
      return;
    case 4: {  // remove a stretch
      const auto [from, length] = stretch(s, random);
      s.erase(from, length);
      return;
    }
    case 5: {  // repeat a stretch elsewhere
      const auto [from, length] = stretch(s, random);
      s.insert(place(s, random), s.substr(from, length));
      return;
    }
    case 6: {  // swap two lines
      auto lines = lines_of(s);
      if (lines.size() > 1) std::swap(lines[random.below(lines.size())], lines[random.below(lines.size())]);
      s = joined(lines);
      return;
    }
    case 7: {  // double a line
      auto lines = lines_of(s);
      if (lines.empty()) return;
      const std::string line = lines[random.below(lines.size())];
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(random.below(lines.size() + 1)), line);
      s = joined(lines);
      return;
    }
    case 8: {  // the tail of another seed
      const std::string& other = seeds[random.below(seeds.size())];
      s = s.substr(0, place(s, random)) + other.substr(place(other, random));
      return;
    }
    default:  // most parsers live by their numbers
      replace_number(s, random);
      return;
  }
}
}  // namespace

std::string mutate(const std::vector<std::string>& seeds, RandomStream& random) {
  std::string s = seeds[random.below(seeds.size())];
  const std::uint64_t edits = random.below(4) + 1;
  for (std::uint64_t i = 0; i < edits; ++i) edit(s, seeds, random);
  return s;
}

}  // namespace wattle::fuzz
