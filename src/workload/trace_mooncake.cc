// Mooncake's JSON Lines (Qin et al., FAST 2025): requests with the hashes of their prompts' blocks.
#include <fmt/core.h>
#include <simdjson.h>

#include <cmath>
#include <iterator>
#include <limits>

#include "base/packed.h"
#include "base/text_line.h"
#include "workload/trace.h"

namespace wattle::workload {

namespace {
constexpr std::size_t kPadding = simdjson::SIMDJSON_PADDING;

std::unexpected<Error> bad_key(const std::string& where, const char* key, std::string_view remedy) {
  return bad_input(where, fmt::format("key '{}' {}", key, remedy));
}

Result<std::int64_t> whole(const simdjson::dom::object& row, const std::string& name, std::int64_t line,
                           const char* key, std::int64_t low, std::int64_t high) {
  const auto where = [&] { return fmt::format("{}:{}", name, line); };
  simdjson::dom::element element;
  if (row.at_key(key).get(element) != simdjson::SUCCESS) return bad_key(where(), key, "is missing; add it");
  std::int64_t value = 0;
  bool is_whole = element.get(value) == simdjson::SUCCESS;
  if (const double real = element.is_double() ? element.get_double().value_unsafe() : 0.5;
      real == std::floor(real) && std::abs(real) <= static_cast<double>(high)) {  // 100.0, as data frames write it
    value = static_cast<std::int64_t>(real);
    is_whole = true;
  }
  if (!is_whole || value < low || value > high) {
    return bad_key(where(), key, fmt::format("must be a whole number from {} to {}", low, high));
  }
  return value;
}

/// Milliseconds, whole in Mooncake's own files, with a fraction in those of some tools.
Result<std::int64_t> time_ns(const simdjson::dom::object& row, const std::string& name, std::int64_t line) {
  simdjson::dom::element element;
  if (row.at_key("timestamp").get(element) == simdjson::SUCCESS && element.is_double()) {
    const double ms = element.get_double().value_unsafe();
    if (ms >= 0.0 && ms <= kMaxTraceSeconds * 1e3) return Span::from_seconds(ms * 1e-3).ns();
  }
  const auto ms = whole(row, name, line, "timestamp", 0, static_cast<std::int64_t>(kMaxTraceSeconds) * 1000);
  if (!ms) return std::unexpected(ms.error());
  return *ms * 1'000'000;
}

/// None, or an empty list: nothing is known. The last block may be none, where the prompt does not fill it.
Result<PromptContent> content_of(const simdjson::dom::object& row, const std::string& name, std::int64_t line,
                                 std::int64_t prompt_tokens, std::vector<std::uint64_t>& ids) {
  simdjson::dom::element element;
  if (row.at_key("hash_ids").get(element) != simdjson::SUCCESS) return PromptContent{};
  simdjson::dom::array list;
  const auto wrong = [&] {
    return bad_key(fmt::format("{}:{}", name, line), "hash_ids", "must be a list of whole numbers from 0");
  };
  if (element.get(list) != simdjson::SUCCESS) return wrong();
  ids.clear();
  for (const simdjson::dom::element id : list) {
    std::uint64_t value = 0;
    if (id.get(value) != simdjson::SUCCESS) return wrong();
    ids.push_back(value);
  }
  const std::int64_t whole = prompt_tokens / kMooncakeBlockTokens;
  const std::int64_t most = whole + (prompt_tokens % kMooncakeBlockTokens == 0 ? 0 : 1);
  const std::int64_t count = std::ssize(ids);
  if (count > 0 && (count < whole || count > most)) {
    return bad_key(fmt::format("{}:{}", name, line), "hash_ids",
                   fmt::format("has {} blocks of {} tokens, and an input_length of {} is {}", count,
                               kMooncakeBlockTokens, prompt_tokens, most));
  }
  return ids.empty() ? PromptContent{} : chained(kMooncakeBlockTokens, ids);
}
}  // namespace

Result<Trace> parse_mooncake(std::string_view text, const std::string& name) {
  if (auto ok = check_unpacked(text, name); !ok) return std::unexpected(ok.error());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  simdjson::dom::parser parser;
  std::string padded;
  Trace trace;
  std::vector<std::uint64_t> ids;  // scratch
  std::int64_t line_number = 0;
  std::int64_t origin = 0;
  std::int64_t before = std::numeric_limits<std::int64_t>::min();
  while (!text.empty()) {
    ++line_number;
    const std::string_view line = take_line(text);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;

    padded.assign(line);
    padded.reserve(line.size() + kPadding);
    simdjson::dom::object row;
    if (const auto error = parser.parse(padded).get(row); error != simdjson::SUCCESS) {
      return bad_input(fmt::format("{}:{}", name, line_number),
                       fmt::format("is not a JSON object ({}){}", simdjson::error_message(error),
                                   text.empty() ? "; is the file cut short?" : "; one object a line is expected"));
    }
    const auto time = time_ns(row, name, line_number);
    if (!time) return std::unexpected(time.error());
    const auto output = whole(row, name, line_number, "output_length", 0, kMaxTokens);
    if (!output) return std::unexpected(output.error());
    const auto prompt = whole(row, name, line_number, "input_length", *output == 0 ? 0 : 1, kMaxTokens);
    if (!prompt) return std::unexpected(prompt.error());
    auto content = content_of(row, name, line_number, *prompt, ids);
    if (!content) return std::unexpected(content.error());
    const std::int64_t ns = *time;
    if (ns < before) {
      return bad_key(
          fmt::format("{}:{}", name, line_number), "timestamp",
          fmt::format("is {} ms, before the line above; sort the lines by timestamp", static_cast<double>(ns) * 1e-6));
    }
    before = ns;
    if (*output == 0) {
      ++trace.skipped_failed;
      continue;
    }
    if (trace.rows.empty()) origin = ns;
    trace.rows.push_back(
        {Instant(ns - origin), static_cast<std::int32_t>(*prompt), static_cast<std::int32_t>(*output), *content});
  }
  if (trace.rows.empty()) {
    if (trace.skipped_failed > 0) return bad_input(name, "has only requests without an answer (0 tokens)");
    return bad_input(name,
                     "is empty; expected lines like {\"timestamp\": 0, \"input_length\": 10, \"output_length\": 5}");
  }
  trace.rows.shrink_to_fit();
  return trace;
}

}  // namespace wattle::workload
