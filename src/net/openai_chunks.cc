// What answers say: chunks of streams, and the usage of whole ones.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/trimmed.h"
#include "net/append.h"
#include "net/openai.h"

namespace wattle::net {

namespace {

std::int32_t count_of(std::string_view number) {
  std::int64_t value = -1;
  const auto [end, ec] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (ec != std::errc() || end == number.data() || value < 0) return -1;
  return static_cast<std::int32_t>(std::min<std::int64_t>(value, 1 << 30));  // sums of a few fit 32 bits
}

std::string_view without_spaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

bool is_done(std::string_view data) {
  constexpr std::string_view kDone = "[DONE]";
  if (data.size() > 2 * kDone.size() || data.find(kDone) == std::string_view::npos) return false;
  return trimmed(data) == kDone;
}

/// Where the string that begins at `from` (behind its quote) ends: its closing quote; npos when it does not.
std::size_t closing_quote(std::string_view json, std::size_t from) {
  for (std::size_t at = json.find('"', from); at != std::string_view::npos; at = json.find('"', at + 1)) {
    std::size_t backslashes = 0;
    while (at - backslashes > from && json[at - backslashes - 1] == '\\') ++backslashes;
    if (backslashes % 2 == 0) return at;
  }
  return std::string_view::npos;
}

/// Names of the texts that tokens come in: chat, completions, reasoning (two spellings), tool calls.
bool holds_text(std::string_view key) {
  return key == "content" || key == "text" || key == "reasoning" || key == "reasoning_content" || key == "arguments";
}

/// What is seen of a chunk on the way through it.
struct ChunkWalk {
  ChunkFacts facts;
  bool empty_text = false;  ///< of a token that is no whole character yet, unless the chunk opens or closes the answer
  bool opens = false;
  bool closes = false;
  bool choices = false;         ///< there is at least one
  const char* text = nullptr;   ///< the last one that is not empty, at its quote
  const char* first = nullptr;  ///< the first key that is looked for, at its quote

  /// Most keys of a chunk are none that is looked for: their length says so.
  static constexpr std::uint32_t kLengths =
      1U << 4 | 1U << 7 | 1U << 9 | 1U << 12 | 1U << 13 | 1U << 16 | 1U << 17 | 1U << 23;

  void member(std::string_view key, std::string_view value) {
    if (key.size() > 23 || (kLengths >> key.size() & 1U) == 0) return;
    const bool is_text = value.starts_with('"');
    if (holds_text(key)) {
      if (is_text) said(value);
    } else if (key == "role") {
      opens = opens || is_text;
    } else if (key == "finish_reason") {
      closes = closes || is_text;
    } else if (key == "choices") {
      // Once there are some, a token of that name changes nothing: logprobs of completions have tokens as keys.
      choices = choices || (value.starts_with('[') && !without_spaces(value.substr(1)).starts_with(']'));
    } else if (!key.ends_with("_tokens")) {
      return;
    } else {
      usage(key, value);
    }
    if (first == nullptr) first = key.data() - 1;
  }
  void said(std::string_view value) {
    if (value.starts_with("\"\"")) {
      empty_text = true;
    } else {
      ++facts.tokens;
      text = value.data();
    }
  }
  void usage(std::string_view key, std::string_view value) {
    if (!key.ends_with("_tokens")) return;
    if (key == "completion_tokens" || key == "output_tokens") {
      facts.completion_tokens = count_of(value);
    } else if (key == "prompt_tokens" || key == "input_tokens") {
      facts.prompt_tokens = count_of(value);
    } else if (key == "cached_tokens" || key == "cache_read_input_tokens") {
      facts.cached_tokens = count_of(value);
    } else if (key == "reasoning_tokens") {
      facts.reasoning_tokens = count_of(value);
    }
  }
};

/// Where the string whose first byte is `from` ends: its closing quote; null when it does not.
const char* string_end(const char* from, const char* end) {
  constexpr std::ptrdiff_t kShort = 24;  // most are shorter than a call is worth
  const char* const soon = end - from > kShort ? from + kShort : end;
  for (const char* at = from; at < soon; ++at) {
    if (*at == '"') return at;
    if (*at == '\\') break;
  }
  const std::string_view all(from, static_cast<std::size_t>(end - from));
  const std::size_t quote = closing_quote(all, 0);
  return quote == std::string_view::npos ? nullptr : from + quote;
}

/// From string to string, each looked at once; those with a colon behind them are keys: `member(key, value)`.
template <typename Member>
void each_member(std::string_view data, const Member& member) {
  const char* at = data.data();
  const char* const end = at + data.size();
  const auto skip_spaces = [&] {
    while (at != end && *at == ' ') ++at;
  };
  for (;;) {
    while (at != end && *at != '"') ++at;
    if (at == end) return;
    const char* const begin = at + 1;
    const char* const quote = string_end(begin, end);
    if (quote == nullptr) return;
    at = quote + 1;
    skip_spaces();
    if (at == end || *at != ':') continue;
    ++at;
    skip_spaces();
    if (at != end) member(std::string_view(begin, quote), std::string_view(at, end));
  }
}

constexpr std::string_view kData = "data: ", kEventEnd = "\n\n";

/// `from`: what lies before that has been looked at, and says nothing.
ChunkWalk walk_chunk(std::string_view data, std::size_t from = 0) {
  ChunkWalk walk;
  if (is_done(data)) {
    walk.facts.done = true;
    return walk;
  }
  walk.facts.error = data.starts_with("{\"error\"") || data.starts_with("{\"object\":\"error\"");
  each_member(data.substr(from), [&](std::string_view key, std::string_view value) { walk.member(key, value); });
  if (walk.facts.tokens == 0 && walk.empty_text && !walk.opens && !walk.closes) walk.facts.tokens = 1;
  walk.facts.finished = walk.closes;
  walk.facts.usage_only = !walk.choices && walk.facts.completion_tokens >= 0;
  return walk;
}

/// How much of a chunk lies before its first member that says anything, where whatever follows cannot change what it
/// says: a string that ends it might be a key.
std::size_t head_before(std::string_view data, const char* first) {
  if (first == nullptr) return 0;
  const auto head = data.substr(0, static_cast<std::size_t>(first - data.data()));
  const std::size_t last = head.find_last_not_of(' ');
  return last != std::string_view::npos && (head[last] == '{' || head[last] == ',') ? head.size() : 0;
}

/// Of a chunk that says nothing but one token.
ChunkFacts one_token() {
  ChunkFacts facts;
  facts.tokens = 1;
  return facts;
}

}  // namespace

ChunkFacts read_chunk(std::string_view data) { return walk_chunk(data).facts; }

bool ChunkReader::is_one_token(std::string_view data) const {
  if (before_.empty()) return false;
  const auto before = std::string_view(before_).substr(kData.size());
  const auto behind = std::string_view(behind_).substr(0, behind_.size() - kEventEnd.size());
  return data.size() > before.size() + behind.size() && data.starts_with(before) && data.ends_with(behind) &&
         closing_quote(data, before.size()) == data.size() - behind.size();
}

ChunkFacts ChunkReader::read(std::string_view data) {
  if (is_one_token(data)) return one_token();
  const bool known = head_ > 0 && data.starts_with(std::string_view(before_).substr(kData.size(), head_));
  const ChunkWalk walk = walk_chunk(data, known ? head_ : 0);
  if (walk.text == nullptr || walk.facts != one_token()) return walk.facts;
  const std::size_t text = static_cast<std::size_t>(walk.text - data.data()) + 1;
  const std::size_t end = closing_quote(data, text);
  if (end == std::string_view::npos) return walk.facts;
  before_.clear();
  behind_.clear();
  append(before_, {kData, data.substr(0, text)});
  append(behind_, {data.substr(end), kEventEnd});
  const auto has = [data](char c) { return data.find(c) != std::string_view::npos; };
  one_line_ = !has('\n') && !has('\r');
  head_ = std::min(text, known ? head_ : head_before(data, walk.first));
  return walk.facts;
}

ChunkReader::Ahead ChunkReader::tokens_ahead(std::string_view events) const {
  Ahead ahead;
  if (!one_line_) return ahead;
  for (std::string_view rest = events; rest.starts_with(before_);) {
    const char* at = rest.data() + before_.size();
    const char* const end = rest.data() + rest.size();
    const char* const text = at;
    const auto in_string = [&] { return at != end && static_cast<unsigned char>(*at) >= 0x20; };
    while (in_string() && *at != '"') {
      if (*at == '\\' && (++at, !in_string())) break;
      ++at;
    }
    if (at == text) break;  // nothing in it, which is no token
    rest = {at, end};
    if (!rest.starts_with(behind_)) break;
    rest.remove_prefix(behind_.size());
    ++ahead.tokens;
    ahead.bytes = events.size() - rest.size();
  }
  return ahead;
}

ChunkFacts read_typed_event(std::string_view type, std::string_view data) {
  if (is_done(data)) return read_chunk(data);
  ChunkWalk walk;
  each_member(data, [&](std::string_view key, std::string_view value) {
    // Of several, that of the whole may be the first or the last (vLLM): it is in the event's own field then.
    if (key == "type" && type.empty() && value.starts_with('"')) type = value.substr(1, value.find('"', 1) - 1);
    walk.usage(key, value);
  });
  ChunkFacts& facts = walk.facts;
  facts.error = type == "error" || type == "response.failed" || data.starts_with("{\"error\"");
  facts.finished = type == "response.completed" || type == "response.incomplete" || type == "message_stop";
  facts.done = facts.finished;
  facts.tokens = type.ends_with(".delta") || type == "content_block_delta" ? 1 : 0;
  return facts;
}

namespace {

/// From quote to quote: rfind() of a whole word looks at every byte.
std::size_t last_usage(std::string_view json) {
  for (std::size_t end = json.size(); end > 0;) {
    const void* const quote = ::memrchr(json.data(), '"', end);
    if (quote == nullptr) break;
    end = static_cast<std::size_t>(static_cast<const char*>(quote) - json.data());
    if (json.substr(end).starts_with("\"usage\"")) return end;
  }
  return std::string_view::npos;
}

}  // namespace

ChunkFacts read_usage(std::string_view json) {
  ChunkWalk walk;
  const std::size_t at = last_usage(json);
  if (at == std::string_view::npos) return walk.facts;
  each_member(json.substr(at), [&](std::string_view key, std::string_view value) { walk.usage(key, value); });
  return walk.facts;
}

}  // namespace wattle::net
