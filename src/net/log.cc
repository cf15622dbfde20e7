#include "net/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "net/line_writer.h"

namespace wattle::net {

namespace {

constexpr std::size_t kTextMax = 1024;  ///< of one value: a client must not fill a disk with one header

constexpr std::size_t kWaitingMost_bytes = 1 << 20;
/// So long the end of the process waits for the reader of the last lines.
constexpr Span kLastWords = Span::s(1);

std::atomic<LogFormat> format_of_lines{LogFormat::Text};

/// Never destroyed: other threads may log while the process ends.
LineWriter& writer() {
  static LineWriter* const made = [] {
    static_cast<void>(std::atexit([] { writer().flush(kLastWords); }));
    return new LineWriter(STDERR_FILENO, kWaitingMost_bytes);
  }();
  return *made;
}

class Sink final : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    writer().add({line.data(), line.size()});
  }
  void flush_() override {}
};

spdlog::logger& logger() {
  static const auto made = [] {
    auto one = std::make_shared<spdlog::logger>("wattle", std::make_shared<Sink>());
    one->set_level(spdlog::level::info);
    return one;
  }();
  return *made;
}

void set_pattern(LogFormat format) {
  constexpr const char* kText = "%Y-%m-%dT%H:%M:%S.%eZ %l wattle: %v";
  constexpr const char* kJson = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";
  logger().set_pattern(format == LogFormat::Json ? kJson : kText, spdlog::pattern_time_type::utc);
}

/// In quotes, ASCII alone; bytes that are no UTF-8 become U+FFFD.
std::string quoted(std::string_view text) {
  return nlohmann::json(text.substr(0, kTextMax)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

bool bare(std::string_view text) {
  return !text.empty() && text.size() <= kTextMax && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._:/@-+()").find(c) != std::string_view::npos;
  });
}

std::string text_of(const LogField& field, LogFormat format) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) {
    return format == LogFormat::Text && bare(*text) ? std::string(*text) : quoted(*text);
  }
  if (const auto* whole = std::get_if<std::int64_t>(&field.value)) return fmt::format("{}", *whole);
  if (const auto* real = std::get_if<double>(&field.value)) return nlohmann::json(*real).dump();
  if (const auto* yes = std::get_if<bool>(&field.value)) return *yes ? "true" : "false";
  return "null";
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  return level == LogLevel::Info      ? spdlog::level::info
         : level == LogLevel::Warning ? spdlog::level::warn
                                      : spdlog::level::err;
}

}  // namespace

std::string log_text(LogFormat format, std::string_view what, std::span<const LogField> fields) {
  std::string event = quoted(what);
  if (format == LogFormat::Text) event = event.substr(1, event.size() - 2);
  std::string out = format == LogFormat::Json ? "\"message\":" + event : event;
  for (const LogField& field : fields) {
    if (format == LogFormat::Json) {
      out.append(",\"").append(field.key).append("\":").append(text_of(field, format));
    } else if (!std::holds_alternative<std::monostate>(field.value)) {
      out.append(" ").append(field.key).append("=").append(text_of(field, format));
    }
  }
  return out;
}

LogFormat log_format() { return format_of_lines; }

void set_log_format(LogFormat format) {
  format_of_lines = format;
  set_pattern(format);
}

void log_line(LogLevel level, std::string_view what, std::span<const LogField> fields) {
  static const bool ready = [] {
    set_pattern(format_of_lines);
    return true;
  }();
  static_cast<void>(ready);
  // Not a format string: what comes from outside may hold braces.
  logger().log(spdlog_level(level), spdlog::string_view_t(log_text(format_of_lines, what, fields)));
}

void log_line(LogLevel level, std::string_view what, std::initializer_list<LogField> fields) {
  log_line(level, what, std::span(fields.begin(), fields.size()));
}

void say(std::string_view line) { writer().add(std::string(line) + "\n"); }

bool flush_log(Span patience) { return writer().flush(patience); }

std::int64_t log_lines_lost() { return writer().lost(); }

}  // namespace wattle::net
