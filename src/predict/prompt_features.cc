#include "predict/prompt_features.h"

#include <algorithm>
#include <cmath>

namespace wattle::predict {

namespace {
constexpr std::uint64_t kStart = 0xcbf29ce484222325ULL;  // FNV-1a
constexpr std::uint64_t kPrime = 0x100000001b3ULL;
enum Shape : std::size_t { kTokens, kCap, kWords, kQuestions, kLines, kDigits, kFences };

/// MurmurHash3's finaliser: FNV's low bits alone are uneven.
std::uint64_t spread(std::uint64_t hash) {
  hash ^= hash >> 33U;
  hash *= 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 33U);
}

/// Of a byte of a word: in lower case; of others 0.
constexpr std::array<unsigned char, 256> kLower = [] {
  std::array<unsigned char, 256> lower{};
  for (unsigned c = 0; c < 256; ++c) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c >= 0x80;
    lower[c] = static_cast<unsigned char>(upper ? c + ('a' - 'A') : plain ? c : 0);
  }
  return lower;
}();

/// Counts a text that comes byte by byte.
class TextCounter {
 public:
  explicit TextCounter(PromptFeatures& out) : out_(out) {}

  void add(unsigned char c) {
    backticks_ = c == '`' ? backticks_ + 1 : 0;
    const unsigned char lower = kLower[c];
    if (lower != 0) {
      word_ = (word_ ^ lower) * kPrime;
      open_ = true;
      digits_ += c >= '0' && c <= '9' ? 1 : 0;
      return;
    }
    end_word();
    out_[kQuestions] += c == '?' ? 1.0F : 0.0F;
    out_[kLines] += c == '\n' ? 1.0F : 0.0F;
    out_[kFences] += backticks_ == 3 ? 1.0F : 0.0F;
  }
  void end() {
    end_word();
    out_[kDigits] = static_cast<float>(digits_);
  }

 private:
  void end_word() {
    if (!open_) return;
    out_[kFirstWord + spread(word_) % kHashedFeatures] += 1.0F;
    if (before_ != 0) out_[kFirstWord + spread(before_ * 31 + word_) % kHashedFeatures] += 1.0F;
    out_[kWords] += 1.0F;
    before_ = word_;
    word_ = kStart;
    open_ = false;
  }

  PromptFeatures& out_;
  std::uint64_t word_ = kStart;
  std::uint64_t before_ = 0;
  int backticks_ = 0;
  std::int64_t digits_ = 0;
  bool open_ = false;
};

/// Of a text of `size` bytes, those that are not read: from `begin` to before `end`.
struct Unread {
  explicit Unread(std::size_t size) {
    if (size > kMostText) begin = kMostText / 2, end = size - kMostText / 2;
  }
  std::size_t begin = 0;
  std::size_t end = 0;
};

void add_facts(const PromptFacts& facts, PromptFeatures& out) {
  out[kTokens] = static_cast<float>(std::max(facts.prompt_tokens, 0));
  out[kCap] = static_cast<float>(std::max(facts.max_tokens, 0));
  std::size_t first = kShapeFeatures;
  for (const std::string_view name : {facts.tenant, facts.model}) {
    std::uint64_t hash = kStart;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
    if (!name.empty()) out[first + spread(hash) % kNameFeatures] = 1.0F;
    first += kNameFeatures;
  }
}

void take_logs(PromptFeatures& out) {
  for (float& f : out) f = f == 0.0F ? 0.0F : std::log1p(f);
}

bool is_escaped(std::string_view json, std::size_t begin, std::size_t at) {
  std::size_t before = at;
  while (before > begin && json[before - 1] == '\\') --before;
  return (at - before) % 2 == 1;
}

/// Calls visit(raw) for the strings that are text, with their escapes.
template <typename Visit>
void each_text(std::string_view json, Visit visit) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string_view key;
  for (std::size_t at = json.find('"'); at != std::string_view::npos; at = json.find('"', at)) {
    const std::size_t begin = at + 1;
    std::size_t end = json.find('"', begin);
    while (end != std::string_view::npos && is_escaped(json, begin, end)) end = json.find('"', end + 1);
    if (end == std::string_view::npos) return;  // not valid: nobody promises anything
    const std::string_view text = json.substr(begin, end - begin);
    at = end + 1;
    const std::size_t next = json.find_first_not_of(kSpace, at);
    if (next != std::string_view::npos && json[next] == ':') {
      key = text;
    } else if (key.empty() || key == "content" || key == "text" || key == "input") {
      visit(text);
    }
  }
}

/// The four hexadecimal digits at `at`; 0 where they are none.
std::uint32_t unit_at(std::string_view raw, std::size_t at) {
  std::uint32_t unit = 0;
  if (at + 4 > raw.size()) return 0;
  for (const char c : raw.substr(at, 4)) {
    const char lower = static_cast<char>(c | 0x20);
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (lower < 'a' || lower > 'f')) return 0;
    unit = unit * 16 + static_cast<std::uint32_t>(digit ? c - '0' : lower - 'a' + 10);
  }
  return unit;
}

void add_utf8(std::uint32_t code, TextCounter& to) {
  const auto rest = [&](int shift) { to.add(static_cast<unsigned char>(0x80U | ((code >> shift) & 0x3fU))); };
  if (code < 0x80) return to.add(static_cast<unsigned char>(code));
  if (code < 0x800) {
    to.add(static_cast<unsigned char>(0xc0U | (code >> 6U)));
  } else {
    if (code < 0x10000) {
      to.add(static_cast<unsigned char>(0xe0U | (code >> 12U)));
    } else {
      to.add(static_cast<unsigned char>(0xf0U | (code >> 18U)));
      rest(12);
    }
    rest(6);
  }
  rest(0);
}

/// What the escape at raw[at] stands for; returns how many bytes it takes.
std::size_t add_escape(std::string_view raw, std::size_t at, TextCounter& to) {
  const char c = at + 1 < raw.size() ? raw[at + 1] : ' ';
  if (c != 'u') {
    to.add(static_cast<unsigned char>(c == 'n' ? '\n' : (c == 'b' || c == 'f' || c == 'r' || c == 't') ? ' ' : c));
    return 2;
  }
  std::uint32_t code = unit_at(raw, at + 2);
  const bool high = code >= 0xd800 && code < 0xdc00;
  const std::uint32_t low = high ? unit_at(raw, at + 8) : 0;
  if (low >= 0xdc00 && low < 0xe000) {
    add_utf8(0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00), to);
    return 12;
  }
  add_utf8(code, to);
  return 6;
}
}  // namespace

PromptFeatures features_of(const PromptFacts& facts, std::string_view text) {
  PromptFeatures out{};
  TextCounter counter(out);
  const Unread unread(text.size());
  for (const char c : text.substr(0, unread.begin)) counter.add(static_cast<unsigned char>(c));
  for (const char c : text.substr(unread.end)) counter.add(static_cast<unsigned char>(c));
  counter.end();
  add_facts(facts, out);
  take_logs(out);
  return out;
}

PromptFeatures features_of_json(const PromptFacts& facts, std::string_view value) {
  PromptFeatures out{};
  std::size_t size = 0;
  each_text(value, [&](std::string_view raw) { size += raw.size(); });
  TextCounter counter(out);
  const Unread unread(size);
  const auto read = [&counter](std::string_view raw) {
    for (std::size_t i = 0; i < raw.size();) {
      if (raw[i] == '\\') {
        i += add_escape(raw, i, counter);
      } else {
        counter.add(static_cast<unsigned char>(raw[i++]));
      }
    }
  };
  std::size_t before = 0;
  each_text(value, [&](std::string_view raw) {
    const auto place = [&](std::size_t at) { return std::clamp(at, before, before + raw.size()) - before; };
    read(raw.substr(0, place(unread.begin)));
    read(raw.substr(place(unread.end)));
    counter.add(' ');
    before += raw.size();
  });
  counter.end();
  add_facts(facts, out);
  take_logs(out);
  return out;
}

}  // namespace wattle::predict
