#pragma once
// Answers of a real engine, recorded, given again byte for byte.
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/exchange.h"

namespace wattle::testbed {

struct RecordedAnswer {
  int status = 200;
  std::string content_type;
  std::string body;
  [[nodiscard]] bool streamed() const { return content_type.starts_with("text/event-stream"); }
};

/// Sections "## NAME", each an HTTP response as curl -i shows it.
class Transcript {
 public:
  /// Errors: a section that is no response; none at all.
  [[nodiscard]] static Result<Transcript> read(const std::string& text, const std::string& name);
  [[nodiscard]] const RecordedAnswer* find(std::string_view name) const;
  [[nodiscard]] std::size_t size() const { return answers_.size(); }

  /// Sends the recording that the X-Wattle-Transcript header names or, without the header, one for a request of this
  /// kind; a stream event by event. 404 if there is none.
  void answer(const std::shared_ptr<net::Exchange>& exchange) const;

 private:
  std::map<std::string, RecordedAnswer, std::less<>> answers_;
};

/// The section that holds recorded answers to such a request.
[[nodiscard]] std::string_view section_of(std::string_view method, std::string_view path, std::string_view body);

}  // namespace wattle::testbed
