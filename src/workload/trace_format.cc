// Names of the formats, and their detection.
#include <fmt/core.h>

#include <array>

#include "base/packed.h"
#include "workload/trace.h"

namespace wattle::workload {

namespace {
struct Known {
  TraceFormat format;
  std::string_view name;
  std::string_view sign;  ///< text that only this format's first line holds
};
constexpr std::array<Known, 5> kKnown = {{{TraceFormat::Azure, "azure", "ContextTokens"},
                                          {TraceFormat::Vidur, "vidur", "num_prefill_tokens"},
                                          {TraceFormat::Splitwise, "splitwise", "prompt_size"},
                                          {TraceFormat::Mooncake, "mooncake", "\"input_length\""},
                                          {TraceFormat::BurstGpt, "burstgpt", "Request tokens"}}};
}  // namespace

std::string_view format_name(TraceFormat format) {
  for (const Known& known : kKnown) {
    if (known.format == format) return known.name;
  }
  return "";
}

std::optional<TraceFormat> format_from_name(std::string_view name) {
  for (const Known& known : kKnown) {
    if (known.name == name) return known.format;
  }
  return std::nullopt;
}

Result<TraceFormat> detect_format(std::string_view text, const std::string& name) {
  if (auto ok = check_unpacked(text, name); !ok) return std::unexpected(ok.error());
  const auto start = text.find_first_not_of("\xef\xbb\xbf\r\n");
  const std::string_view line =
      start == std::string_view::npos ? "" : text.substr(start, text.find('\n', start) - start);
  if (line.empty()) return bad_input(name, "is empty; expected a trace");
  for (const Known& known : kKnown) {
    if (line.find(known.sign) != std::string_view::npos) return known.format;
  }
  std::string signs;
  for (const Known& known : kKnown) {
    signs += fmt::format("{}{} ({})", signs.empty() ? "" : ", ", known.sign, known.name);
  }
  return bad_input(fmt::format("{}:1", name), "has none of what begins a known trace: " + signs);
}

}  // namespace wattle::workload
