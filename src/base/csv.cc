#include "base/csv.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/packed.h"
#include "base/text_line.h"
#include "base/trimmed.h"

namespace wattle {

namespace {
/// A field for an error message: short and printable.
std::string shown(std::string_view field) {
  std::string out;
  for (const char c : field.substr(0, 40)) out += (c >= ' ' && c < '\x7f') ? c : '?';
  if (field.size() > 40) out += "...";
  return out;
}

bool is_one_of(std::string_view name, std::string_view alternatives) {
  while (true) {
    const auto bar = alternatives.find('|');
    if (name == alternatives.substr(0, bar)) return true;
    if (bar == std::string_view::npos) return false;
    alternatives.remove_prefix(bar + 1);
  }
}

std::string spelled(std::string_view alternatives) {
  std::string out(alternatives);
  for (auto at = out.find('|'); at != std::string::npos; at = out.find('|', at)) out.replace(at, 1, "' or '");
  return out;
}
}  // namespace

Result<CsvReader> CsvReader::open(std::string_view text, std::string name, std::span<const std::string_view> columns) {
  if (auto ok = check_unpacked(text, name); !ok) return std::unexpected(ok.error());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  CsvReader reader(text, std::move(name));
  std::optional<std::string_view> header;
  do {
    header = reader.take_line();
  } while (header && trimmed(*header).empty());
  if (!header)
    return bad_input(reader.name_, fmt::format("is empty; expected a header line with {}", fmt::join(columns, ",")));
  if (auto ok = reader.split(*header); !ok) return std::unexpected(ok.error());
  reader.names_.assign(reader.fields_.begin(), reader.fields_.end());
  for (const auto column : columns) {
    const auto matches = [&](const std::string& found) { return is_one_of(found, column); };
    const auto found = std::ranges::find_if(reader.names_, matches);
    if (found == reader.names_.end()) {
      return bad_input(reader.where(),
                       fmt::format("the header has no column '{}'; it has '{}'", spelled(column), shown(*header)));
    }
    if (std::ranges::count_if(reader.names_, matches) > 1) {
      return bad_input(reader.where(), fmt::format("the header has column '{}' twice; keep one", spelled(column)));
    }
    reader.wanted_.push_back(static_cast<std::size_t>(found - reader.names_.begin()));
  }
  return reader;
}

bool CsvReader::is_absent(std::size_t i) const {
  const std::string_view value = field(i);
  return value.empty() || value == "nan" || value == "NaN" || value == "NAN" || value == "null" || value == "None";
}

std::optional<std::string_view> CsvReader::take_line() {
  if (rest_.empty()) return std::nullopt;
  ++line_;
  return wattle::take_line(rest_);
}

Result<void> CsvReader::split(std::string_view line) {
  fields_.clear();
  if (line.find('"') == std::string_view::npos) {
    while (true) {
      const auto comma = line.find(',');
      fields_.push_back(trimmed(line.substr(0, comma)));
      if (comma == std::string_view::npos) return {};
      line.remove_prefix(comma + 1);
    }
  }
  unescaped_.clear();
  unescaped_.reserve(static_cast<std::size_t>(std::ranges::count(line, ',')) + 1);  // views into it must not move
  while (true) {
    std::string_view field = trimmed(line);
    if (field.starts_with('"')) {
      std::size_t at = 1;
      std::string& value = unescaped_.emplace_back();
      while (true) {
        const auto quote = field.find('"', at);
        if (quote == std::string_view::npos)
          return bad_input(where(), "a quoted field is not closed on its line; add the closing '\"'");
        value.append(field.substr(at, quote - at));
        at = quote + 1;
        if (at >= field.size() || field[at] != '"') break;
        value.push_back('"');
        ++at;
      }
      fields_.push_back(value);
      const std::string_view after = trimmed(field.substr(at));
      if (after.empty()) return {};
      if (after.front() != ',') return bad_input(where(), "text follows a closing quote; separate fields by ','");
      line = after.substr(1);
    } else {
      const auto comma = line.find(',');
      fields_.push_back(trimmed(line.substr(0, comma)));
      if (comma == std::string_view::npos) return {};
      line.remove_prefix(comma + 1);
    }
  }
}

Result<bool> CsvReader::next() {
  while (true) {
    const auto line = take_line();
    if (!line) return false;
    if (trimmed(*line).empty()) continue;
    if (auto ok = split(*line); !ok) return std::unexpected(std::move(ok.error()));
    if (fields_.size() != names_.size()) {
      return bad_input(where(), fmt::format("has {} field{} where the header has {}; {}", fields_.size(),
                                            fields_.size() == 1 ? "" : "s", names_.size(),
                                            rest_.empty() ? "is the file cut short? Remove or complete its last line"
                                                          : "complete the line or remove it"));
    }
    return true;
  }
}

std::string CsvReader::where() const { return fmt::format("{}:{}", name_, line_); }

std::unexpected<Error> CsvReader::bad_field(std::size_t i, std::string_view remedy) const {
  return bad_input(where(), fmt::format("{} is '{}'; {}", column(i), shown(field(i)), remedy));
}

Result<std::int64_t> CsvReader::whole(std::size_t i, std::int64_t low, std::int64_t high) const {
  const std::string_view text = field(i);
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const char* const last = text.data() + text.size();
  if (end != text.data() && end != last && *end == '.')
    end = std::find_if(end + 1, last, [](char c) { return c != '0'; });
  if (error != std::errc() || end != last || value < low || value > high) [[unlikely]] {
    return bad_field(i, fmt::format("it must be a whole number from {} to {}", low, high));
  }
  return value;
}

Result<double> CsvReader::number(std::size_t i, double low, double high) const {
  const std::string_view text = field(i);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < low || value > high)
      [[unlikely]] {
    const bool any = low == std::numeric_limits<double>::lowest() && high == std::numeric_limits<double>::max();
    return bad_field(i,
                     any ? "it must be a finite number" : fmt::format("it must be a number from {} to {}", low, high));
  }
  return value;
}

}  // namespace wattle
