#pragma once
// Server-sent events out of bytes that arrive in any chunking: same bytes, same events. Pure; no allocation for an
// event that lies wholly in one feed.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace wattle::net {

/// Follows the WHATWG grammar for `data` and `event` fields, comments, and CR, LF or CRLF line ends; `id` and `retry`
/// are read over. An event without data is not reported, an event cut off by the end of the stream neither.
class SseParser {
 public:
  struct Event {
    std::string_view type;  ///< the `event` field; empty = "message"
    std::string_view data;  ///< data lines joined by '\n'
  };

  explicit SseParser(std::size_t max_event_bytes = 1 << 20) : max_event_bytes_(max_event_bytes) {}

  /// `bytes` must stay alive until next() has returned nullopt. complete_bytes() is then 1 if they begin with the LF of
  /// the line end that ended the newest event, else 0.
  void feed(std::string_view bytes);
  /// The next event completed by what was fed; its views die with the following call.
  [[nodiscard]] std::optional<Event> next();
  /// What of the feed has not been looked at, where an event begins with it and nothing but LF ends lines in it; else
  /// empty. For one that knows a stream's events by their bytes.
  [[nodiscard]] std::string_view plain_rest() const;
  /// So many bytes of plain_rest(), whole events, have been read without us.
  void pass(std::size_t bytes);
  /// After next() returned nullopt: how many of the last feed's bytes end with a complete event. The rest belongs to an
  /// event that is still open.
  [[nodiscard]] std::size_t complete_bytes() const { return boundary_; }
  /// An event outgrew max_event_bytes; nothing more will come.
  [[nodiscard]] bool overflowed() const { return overflowed_; }

 private:
  /// Offset in the fed bytes of the first CR or LF at or after `from`; their size when there is none.
  [[nodiscard]] std::size_t line_end(std::size_t from);
  [[nodiscard]] std::optional<Event> one_line_event();
  void line(std::string_view text);
  void keep_data();

  std::size_t max_event_bytes_;
  std::string_view fed_;   ///< the last feed
  std::string_view rest_;  ///< of it, not yet looked at
  std::size_t lf_ = 0;     ///< first LF at or after the line looked at; valid unless it lies before it
  std::size_t cr_ = 0;     ///< and CR
  std::size_t boundary_ = 0;
  std::string partial_;         ///< a line cut by the end of a feed
  std::string data_;            ///< data of the open event, when it had to be copied
  std::string_view data_view_;  ///< data of the open event, while it lies in the fed bytes
  std::string type_;
  bool has_data_ = false;
  bool copied_ = false;
  bool first_line_ = true;
  bool skip_lf_ = false;  ///< the last line ended in CR: an LF right after belongs to it
  bool ended_ = false;    ///< it was blank, the end of an event
  bool emitted_ = false;  ///< the event handed out last is to be cleared
  bool overflowed_ = false;
};

}  // namespace wattle::net
