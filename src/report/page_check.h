#pragma once
// For tests: whether a page is well formed, and what it holds.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace wattle::report {

/// Nothing when every element is closed in order and every attribute quoted; else what is wrong, with its surroundings.
inline std::string malformed(std::string_view page) {
  std::vector<std::string> open;
  std::size_t at = 0;
  const auto near = [&](std::size_t i) { return std::string(page.substr(i, 90)); };
  if (page.starts_with("<!DOCTYPE html>")) at = 15;
  while ((at = page.find_first_of("<>&", at)) != std::string_view::npos) {
    if (page[at] == '&') {
      const std::size_t end = page.find(';', at);
      if (end == std::string_view::npos || end - at > 8) return "bare & at " + near(at);
      at = end;
      continue;
    }
    if (page[at] == '>') return "bare > at " + near(at);
    std::size_t end = at + 1;
    for (bool quoted = false; end < page.size() && (quoted || page[end] != '>'); ++end) {
      if (page[end] == '"') quoted = !quoted;
      if (page[end] == '<') return "< inside a tag at " + near(at);
    }
    if (end >= page.size()) return "unclosed tag at " + near(at);
    std::string_view tag = page.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1))
        return "</" + std::string(tag.substr(1)) + "> closes " + (open.empty() ? "nothing" : open.back()) + " before " +
               near(at);
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.emplace_back(tag.substr(0, tag.find(' ')));
      if (open.back() == "script" || open.back() == "style") at = page.find("</", at);
    }
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

/// How often `what` stands in `text`.
inline std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

}  // namespace wattle::report
