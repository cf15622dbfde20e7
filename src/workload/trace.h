#pragma once
// Trace files in memory: the readers' result and the writers' input.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "workload/options.h"

namespace wattle::workload {

/// The rows of a trace file, unchanged, in the file's order, which is the order of arrival. Arrivals count from the
/// first row kept, whatever zero the file uses. 32 bytes a row, and 8 a block where the file says what prompts are.
struct Trace {
  std::vector<TraceRow> rows;
  std::int64_t skipped_failed = 0;  ///< rows with an answer of no tokens: the service failed them or had none to give
};

/// Reads a trace from text; `name` stands for the file in errors ("name:line"). Columns are found by header name.
/// Errors: no rows, a missing column, a row of the wrong length, a time that is no time or lies before the row above,
/// token counts that are not whole numbers up to 2^31-1, and from 1 but for a request without an answer, which is
/// counted and left out.
[[nodiscard]] Result<Trace> parse_trace(TraceFormat format, std::string_view text, const std::string& name);

/// Reads a trace file, without a format in that of its first line.
[[nodiscard]] Result<Trace> load_trace(std::optional<TraceFormat> format, const std::string& path);

/// "azure", "vidur", "splitwise", "mooncake", "burstgpt".
[[nodiscard]] std::string_view format_name(TraceFormat format);
/// The inverse; nothing for any other name.
[[nodiscard]] std::optional<TraceFormat> format_from_name(std::string_view name);
/// Which format a text is in, by its first line. Errors: none of them.
[[nodiscard]] Result<TraceFormat> detect_format(std::string_view text, const std::string& name);

/// One JSON object a line, {"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [id, ...]}; parse_trace
/// calls it. An id stands for the tokens of a block of the prompt (kMooncakeBlockTokens) and of all before it; ids
/// chain here once more, so that ids of blocks alone do as well. Fewer than the prompt has blocks: the rest is its own;
/// more say nothing.
[[nodiscard]] Result<Trace> parse_mooncake(std::string_view text, const std::string& name);

inline constexpr std::int32_t kMooncakeBlockTokens = 512;
inline constexpr std::int64_t kMaxTokens = 2'147'483'647;
/// Longest trace: arrivals stay within a signed 64-bit count of nanoseconds.
inline constexpr double kMaxTraceSeconds = 9.0e9;

}  // namespace wattle::workload
