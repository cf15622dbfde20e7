#include "length_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/csv.h"
#include "base/file.h"
#include "base/text_line.h"
#include "workload/trace.h"

namespace wattle::apps {

namespace {

using nlohmann::json;

constexpr std::int64_t kMost = 1'000'000'000;

std::string shown(const json& value) {
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  constexpr std::size_t kShown = 40;
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

/// The whole number at `key` from `least` on; 0: it has none.
Result<std::int32_t> number_at(const json& row, const char* key, std::int64_t least, const std::string& where) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return 0;
  const bool whole = found->is_number_integer() && *found >= least && *found <= kMost;
  if (whole) return found->get<std::int32_t>();
  return bad_input(where,
                   fmt::format("{} is {}; it must be a whole number from {} to {}", key, shown(*found), least, kMost));
}

/// The texts of `messages`, joined by spaces.
Result<std::string> text_of_messages(const json& messages, const std::string& where) {
  const auto wrong = [&] {
    return bad_input(where, R"(messages must be a list of {"role": ..., "content": TEXT or [{"text": TEXT}, ...]})");
  };
  std::string text;
  const auto add = [&](const json& piece) {
    if (piece.is_string()) text += (text.empty() ? "" : " ") + piece.get<std::string>();
    return piece.is_string();
  };
  if (!messages.is_array()) return wrong();
  for (const json& message : messages) {
    const auto content = message.is_object() ? message.find("content") : message.end();
    if (!message.is_object() || content == message.end()) return wrong();
    if (content->is_null() || add(*content)) continue;  // null: it calls a tool
    if (!content->is_array()) return wrong();
    for (const json& part : *content) {
      if (part.is_object() && part.contains("text") && !add(part["text"])) return wrong();
    }
  }
  return text;
}

Result<LengthRow> row_of(std::string_view line, bool answers, const std::string& where) {
  const json row = json::parse(line, nullptr, false);
  if (!row.is_object()) {
    return bad_input(where, R"(is no JSON object; a line is {"prompt": TEXT, "output_tokens": NUMBER})");
  }
  LengthRow made;
  for (const auto& [key, into] :
       {std::pair{"prompt", &made.prompt}, std::pair{"tenant", &made.tenant}, std::pair{"model", &made.model}}) {
    const auto found = row.find(key);
    if (found == row.end() || found->is_null()) continue;
    if (!found->is_string()) return bad_input(where, fmt::format("{} is {}; it must be text", key, shown(*found)));
    *into = found->get<std::string>();
  }
  if (row.contains("messages")) {
    if (row.contains("prompt")) return bad_input(where, "has prompt and messages; one of them is the prompt");
    auto text = text_of_messages(row["messages"], where);
    if (!text) return std::unexpected(text.error());
    made.prompt = std::move(*text);
  }
  struct Wanted {
    const char* key;
    std::int64_t least;
    std::int32_t* into;
  };
  for (const auto& [key, least, into] :
       {Wanted{"prompt_tokens", 0, &made.prompt_tokens}, Wanted{"max_tokens", 0, &made.max_tokens},
        Wanted{"output_tokens", 1, &made.output_tokens}}) {
    const auto number = number_at(row, key, least, where);
    if (!number) return std::unexpected(number.error());
    *into = *number;
  }
  if (answers && made.output_tokens == 0) return bad_input(where, "output_tokens is missing");
  return made;
}

Result<LengthRows> read_json_lines(std::string_view text, const std::string& name, bool answers) {
  LengthRows out;
  std::int64_t number = 0;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto row = row_of(line, answers, fmt::format("{}:{}", name, number));
    if (!row) return std::unexpected(row.error());
    out.rows.push_back(std::move(*row));
  }
  return out;
}

Result<LengthRows> read_csv(std::string_view text, const std::string& name, bool answers) {
  constexpr std::array<std::string_view, 1> kAnswer{"output_tokens"};
  auto csv = CsvReader::open(
      text, name, answers ? std::span<const std::string_view>(kAnswer) : std::span<const std::string_view>());
  if (!csv) return std::unexpected(csv.error());
  const auto column = [&](std::string_view wanted) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(csv->header(), wanted);
    if (found == csv->header().end()) return std::nullopt;
    return static_cast<std::size_t>(found - csv->header().begin());
  };
  const auto prompt = column("prompt");
  const auto tenant = column("tenant");
  const auto model = column("model");
  struct Numbers {
    std::string_view name;
    std::int64_t least;
    std::int32_t LengthRow::*into;
  };
  const std::array<Numbers, 4> numbers{{{"prompt_tokens", 0, &LengthRow::prompt_tokens},
                                        {"input_tokens", 0, &LengthRow::prompt_tokens},
                                        {"max_tokens", 0, &LengthRow::max_tokens},
                                        {"output_tokens", 1, &LengthRow::output_tokens}}};
  if (!prompt && !column("prompt_tokens") && !column("input_tokens")) {
    return bad_input(name + ":1", "has neither a column prompt nor one of prompt_tokens or input_tokens");
  }
  LengthRows out;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) return out;
    LengthRow row;
    if (prompt) row.prompt = csv->fields()[*prompt];
    if (tenant) row.tenant = csv->fields()[*tenant];
    if (model) row.model = csv->fields()[*model];
    for (const auto& [key, least, into] : numbers) {
      const auto at = column(key);
      if (!at) continue;
      const std::string_view field = csv->fields()[*at];
      if (field.empty() && (key != "output_tokens" || !answers)) continue;
      const json value = json::parse(field, nullptr, false);
      const json row_of_one = json::object({{std::string(key), value.is_discarded() ? json(field) : value}});
      const auto number = number_at(row_of_one, key.data(), least, csv->where());
      if (!number) return std::unexpected(number.error());
      row.*into = *number;
    }
    out.rows.push_back(std::move(row));
  }
}

Result<LengthRows> read_trace(workload::TraceFormat format, std::string_view text, const std::string& name) {
  const auto trace = workload::parse_trace(format, text, name);
  if (!trace) return std::unexpected(trace.error());
  LengthRows out;
  for (const auto& row : trace->rows) {
    out.rows.push_back({.prompt_tokens = row.prompt_tokens, .output_tokens = row.output_tokens});
  }
  return out;
}

/// None: prompts and answers, no trace.
std::optional<workload::TraceFormat> format_of(const std::string& text, std::size_t first, const std::string& path) {
  if (text[first] == '{') {  // a prompt may contain any word of a trace's header
    const json row = json::parse(text.substr(first, text.find('\n', first) - first), nullptr, false);
    if (!row.is_object() || !row.contains("output_length")) return std::nullopt;
  }
  const auto format = workload::detect_format(text, path);
  return format ? std::optional(*format) : std::nullopt;
}

}  // namespace

Result<LengthRows> read_lengths(const std::string& path, bool answers) {
  const auto text = read_file(path);
  if (!text) return std::unexpected(text.error());
  const std::size_t first = text->find_first_not_of("\xef\xbb\xbf \t\r\n");
  if (first == std::string::npos) return bad_input(path, "is empty");
  const auto format = format_of(*text, first, path);
  auto read = format                  ? read_trace(*format, *text, path)
              : (*text)[first] == '{' ? read_json_lines(*text, path, answers)
                                      : read_csv(*text, path, answers);
  if (!read) return std::unexpected(read.error());
  if (read->rows.empty()) return bad_input(path, "has no rows");
  read->has_text = std::ranges::any_of(read->rows, [](const LengthRow& row) { return !row.prompt.empty(); });
  return read;
}

}  // namespace wattle::apps
