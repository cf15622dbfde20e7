#pragma once
// The log of a live process: one line per event on stderr, as text or as a JSON object, with the time in UTC. Text from
// outside is escaped, so that it cannot end a line or begin one.
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "units/time.h"

namespace wattle::net {

enum class LogFormat : std::uint8_t { Text, Json };
enum class LogLevel : std::uint8_t { Info, Warning, Error };

struct LogField {
  std::string_view key;  ///< chosen by this program, never by a client
  /// monostate: unknown, null in JSON and omitted in text.
  std::variant<std::monostate, std::string_view, std::int64_t, double, bool> value = {};
};

/// Call before threads log; the format is text until then.
void set_log_format(LogFormat format);
[[nodiscard]] LogFormat log_format();
/// Any thread; never waits for stderr (net/line_writer.h). `what`: the event, in a few words.
void log_line(LogLevel level, std::string_view what, std::span<const LogField> fields);
void log_line(LogLevel level, std::string_view what, std::initializer_list<LogField> fields = {});
/// Writes a line for people unchanged, in order with the log's lines.
void say(std::string_view line);
/// Waits for at most `patience` until all of these lines are written or dropped. False: some still wait.
bool flush_log(Span patience);
/// Lines dropped because stderr was not read, or not fast enough.
[[nodiscard]] std::int64_t log_lines_lost();
/// The line without its time and level: JSON members, or the event and key=value.
[[nodiscard]] std::string log_text(LogFormat format, std::string_view what, std::span<const LogField> fields);

}  // namespace wattle::net
