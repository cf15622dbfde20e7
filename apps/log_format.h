#pragma once
// The flag of live processes that says how their lines on stderr look.
#include <string>

#include "command_line.h"
#include "net/log.h"

namespace wattle::apps {

inline void add_log_format_flag(Command& command, std::string& format) {
  command.add_option("--log-format", format, "of lines on stderr: text, or json (one object a line)")
      .check(one_of({"text", "json"}))
      .capture_default_str();
}

/// Before any thread logs.
inline void apply_log_format(const std::string& format) {
  net::set_log_format(format == "json" ? net::LogFormat::Json : net::LogFormat::Text);
}

}  // namespace wattle::apps
