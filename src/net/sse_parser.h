#pragma once
// Parses server-sent events from bytes in chunks of any size; the events do not depend on the chunks. Pure; no
// allocation for an event that lies entirely in one feed.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace wattle::net {

/// Follows the WHATWG grammar for `data` and `event` fields, comments, and CR, LF or CRLF line ends; `id` and `retry`
/// are ignored. Events without data, and an event cut off by the end of the stream, are not reported.
class SseParser {
 public:
  struct Event {
    std::string_view type;  ///< the `event` field; empty = "message"
    std::string_view data;  ///< data lines joined by '\n'
  };

  /// Room for an image in base64, or a long answer that arrives in one piece.
  static constexpr std::size_t kMostEvent = 16 << 20;

  explicit SseParser(std::size_t max_event_bytes = kMostEvent) : max_event_bytes_(max_event_bytes) {}

  /// `bytes` must stay alive until next() has returned nullopt. complete_bytes() is then 1 if they begin with the LF of
  /// the line end that ended the newest event, else 0.
  void feed(std::string_view bytes);
  /// The next event completed by what was fed; its views are valid until the next call.
  [[nodiscard]] std::optional<Event> next();
  /// The unparsed rest of the feed if an event begins there and all its lines end in LF; else empty. For callers that
  /// recognise a stream's events by their bytes.
  [[nodiscard]] std::string_view plain_rest() const;
  /// Skips this many bytes of plain_rest(), which must be whole events: the caller has read them.
  void pass(std::size_t bytes);
  /// After next() returned nullopt: how many of the last feed's bytes end with a complete event. The rest belongs to an
  /// event that is still open.
  [[nodiscard]] std::size_t complete_bytes() const { return boundary_; }
  /// An event exceeded max_event_bytes; no more events are reported.
  [[nodiscard]] bool overflowed() const { return overflowed_; }

 private:
  /// Offset in the fed bytes of the first CR or LF at or after `from`; their size if there is none.
  [[nodiscard]] std::size_t line_end(std::size_t from);
  [[nodiscard]] std::optional<Event> one_line_event();
  void line(std::string_view text);
  void keep_data();

  std::size_t max_event_bytes_;
  std::string_view fed_;   ///< the last feed
  std::string_view rest_;  ///< the part of it not yet parsed
  std::size_t lf_ = 0;     ///< first LF at or after the present line; valid unless it lies before it
  std::size_t cr_ = 0;     ///< the same for CR
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
