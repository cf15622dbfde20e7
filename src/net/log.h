#pragma once
// The log of a live process: one line an event on stderr, as text or as one JSON object, each with the time in UTC.
// What comes from outside is escaped: no byte of it can end a line or begin one.
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
  std::string_view key;  ///< ours, never a client's
  /// monostate: not known, null in JSON and left out of text.
  std::variant<std::monostate, std::string_view, std::int64_t, double, bool> value = {};
};

/// Before threads log; text until then.
void set_log_format(LogFormat format);
[[nodiscard]] LogFormat log_format();
/// Any thread; never waits for stderr (net/line_writer.h). `what`: which event, in a few words.
void log_line(LogLevel level, std::string_view what, std::span<const LogField> fields);
void log_line(LogLevel level, std::string_view what, std::initializer_list<LogField> fields = {});
/// A line for people, as it is, in turn with those of the log.
void say(std::string_view line);
/// Waits until all of that is written or lost, for `patience` at most. False: some is not.
bool flush_log(Span patience);
/// Lines lost because nobody read stderr, or not as fast as they came.
[[nodiscard]] std::int64_t log_lines_lost();
/// The line without its time and level: JSON members, or the event and key=value.
[[nodiscard]] std::string log_text(LogFormat format, std::string_view what, std::span<const LogField> fields);

}  // namespace wattle::net
