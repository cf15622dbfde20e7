#include "journal/decisions_jsonl.h"

#include <algorithm>
#include <limits>

#include "base/text_line.h"
#include "journal/decimal.h"
#include "journal/json_keys.h"
#include "journal/names.h"

namespace wattle::journal {
namespace {

/// Length of the well-formed UTF-8 sequence at the front; 0 when it is none.
std::size_t utf8_length(std::string_view s) {
  const auto byte = [&](std::size_t i) {
    return i < s.size() ? static_cast<unsigned>(static_cast<unsigned char>(s[i])) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned b = byte(0);
  if (b < 0x80U) return 1;
  if (b >= 0xC2U && b <= 0xDFU) return tail(1) ? 2 : 0;
  if (b >= 0xE0U && b <= 0xEFU) {
    const bool overlong = b == 0xE0U && byte(1) < 0xA0U;
    const bool surrogate = b == 0xEDU && byte(1) > 0x9FU;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (b >= 0xF0U && b <= 0xF4U) {
    const bool overlong = b == 0xF0U && byte(1) < 0x90U;
    const bool beyond = b == 0xF4U && byte(1) > 0x8FU;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

class Line {
 public:
  Line(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}

  std::int64_t whole(const char* key, std::int64_t low) {
    const auto it = json_.find(key);
    if (it == json_.end()) return fail(key, "is missing");
    const bool fits = it->is_number_integer() &&
                      !(it->is_number_unsigned() && it->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX));
    if (!fits || it->get<std::int64_t>() < low) return fail(key, fmt::format("must be a whole number >= {}", low));
    return it->get<std::int64_t>();
  }
  std::string text(const char* key) {
    const auto it = json_.find(key);
    if (it == json_.end() || !it->is_string()) {
      fail(key, "must be a string");
      return {};
    }
    return it->get<std::string>();
  }
  std::int64_t fail(const char* key, const std::string& what) {
    if (!error_) error_ = Error{ErrorKind::BadInput, where_, fmt::format("key {} {}", key, what)};
    return 0;
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const Json& json_;
  std::string where_;
  std::optional<Error> error_;
};

}  // namespace

void append_json_text(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.push_back('"');
  while (!text.empty()) {
    const char c = text.front();
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
      text.remove_prefix(1);
    } else if (static_cast<unsigned char>(c) < 0x20U) {
      const auto code = static_cast<std::size_t>(static_cast<unsigned char>(c));
      out += "\\u00";
      out.push_back(kHex[code >> 4U]);
      out.push_back(kHex[code & 15U]);
      text.remove_prefix(1);
    } else if (const std::size_t n = utf8_length(text); n > 0) {
      out += text.substr(0, n);
      text.remove_prefix(n);
    } else {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    }
  }
  out.push_back('"');
}

void append_decision_line(std::string& out, const DecisionRecord& r) {
  out += "{\"at_ns\":";
  append_whole(out, r.at.ns());
  out += ",\"kind\":\"";
  out += name_of(r.kind);
  out += "\",\"mode\":\"";
  out += name_of(r.mode);
  out += "\",\"request\":";
  append_whole(out, r.request.value());
  out += ",\"instance\":";
  append_whole(out, r.instance.value());
  out += ",\"value\":";
  append_whole(out, r.value);
  out += ",\"reason\":";
  append_json_text(out, r.reason);
  out += "}\n";
}

Result<void> parse_decisions(std::string_view text, const std::string& name,
                             const std::function<void(const DecisionRecord&)>& f) {
  constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();
  std::int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::string_view line = take_line(text);
    if (line.empty()) continue;
    std::string where = fmt::format("{}:{}", name, number);
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) return bad_input(where, "each line must be one complete JSON object");
    Line fields(json, where);
    DecisionRecord r;
    r.at = Instant(fields.whole("at_ns", kInt64Min));
    if (const auto kind = decision_kind_from(fields.text("kind"))) {
      r.kind = *kind;
    } else {
      fields.fail(
          "kind",
          "must be admission, route-prefill, route-decode, clock, queueing, scaling, phase, length, plan or step");
    }
    if (const auto mode = mode_from(fields.text("mode"))) {
      r.mode = *mode;
    } else {
      fields.fail("mode", "must be enforce, shadow or off");
    }
    r.request = RequestId(fields.whole("request", -1));
    const std::int64_t instance = fields.whole("instance", -1);
    if (instance > std::numeric_limits<std::int32_t>::max()) fields.fail("instance", "must be below 2^31");
    r.instance = InstanceId(static_cast<std::int32_t>(instance));
    r.value = fields.whole("value", kInt64Min);
    const std::string reason = fields.text("reason");
    r.reason = reason.c_str();
    if (fields.error()) return std::unexpected(*fields.error());
    f(r);
  }
  return {};
}

}  // namespace wattle::journal
