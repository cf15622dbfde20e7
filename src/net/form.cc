#include "net/form.h"

#include <algorithm>
#include <array>
#include <string>

#include "net/http_message.h"

namespace wattle::net {

namespace {

constexpr int kMostParts = 64;
constexpr std::size_t kLongestHead = 8 * 1024;
constexpr std::size_t kLongestBoundary = 70;  ///< RFC 2046, 5.1.1

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && same_name(text.substr(0, prefix.size()), prefix);
}

/// A parameter's value in a header field's value, quoted or not: `; key=value`.
std::optional<std::string_view> parameter(std::string_view value, std::string_view key) {
  while (!value.empty()) {
    value.remove_prefix(std::min(value.find(';'), value.size() - 1) + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    const std::size_t equals = value.find_first_of("=;");
    if (equals == std::string_view::npos) return std::nullopt;
    const bool right = value[equals] == '=' && same_name(value.substr(0, equals), key);
    value.remove_prefix(value[equals] == '=' ? equals + 1 : equals);
    const bool quoted = value.starts_with('"');
    if (quoted) value.remove_prefix(1);
    const std::size_t end = std::min(quoted ? value.find('"') : value.find_first_of("; \t"), value.size());
    if (right) return value.substr(0, end);
    value.remove_prefix(end);
  }
  return std::nullopt;
}

/// The name of the field that a part with this head is.
std::optional<std::string_view> name_in(std::string_view head) {
  constexpr std::string_view kDisposition = "Content-Disposition:";
  while (!head.empty()) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    head.remove_prefix(std::min(line.size() + 2, head.size()));
    if (begins_with(line, kDisposition)) return parameter(line.substr(kDisposition.size()), "name");
  }
  return std::nullopt;
}

}  // namespace

bool is_no_json(std::string_view content_type) {
  constexpr std::array<std::string_view, 6> kOthers{
      "multipart/", "audio/", "image/", "video/", "application/octet-stream", "application/x-www-form-urlencoded"};
  return std::ranges::any_of(kOthers, [&](std::string_view other) { return begins_with(content_type, other); });
}

bool begins_like_json(std::string_view body) {
  constexpr std::string_view kBefore(" \t\r\n\0\xEF\xBB\xBF\xFE\xFF", 10);  // spaces and byte-order marks
  const std::size_t first = body.find_first_not_of(kBefore);
  return first != std::string_view::npos && (body[first] == '{' || body[first] == '[');
}

std::optional<std::string_view> form_field(std::string_view content_type, std::string_view body,
                                           std::string_view name) {
  if (!begins_with(content_type, "multipart/")) return std::nullopt;
  const auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kLongestBoundary) return std::nullopt;
  const std::string between = "\r\n--" + std::string(*boundary);
  const std::string_view first = std::string_view(between).substr(2);
  std::size_t at = body.starts_with(first) ? 0 : body.find(between);
  if (at == std::string_view::npos) return std::nullopt;
  at += at == 0 ? first.size() : between.size();
  for (int part = 0; part < kMostParts; ++part) {
    const std::string_view rest = body.substr(at);
    if (rest.starts_with("--")) break;
    const std::size_t head_end = rest.substr(0, kLongestHead).find("\r\n\r\n");
    if (head_end == std::string_view::npos) break;
    const std::string_view content = rest.substr(head_end + 4);
    const std::size_t end = content.find(between);
    if (name_in(rest.substr(0, head_end)) == name) return content.substr(0, end);
    if (end == std::string_view::npos) break;
    at += head_end + 4 + end + between.size();
  }
  return std::nullopt;
}

}  // namespace wattle::net
