#include "net/sse_parser.h"

#include <algorithm>
#include <utility>

namespace wattle::net {

void SseParser::feed(std::string_view bytes) {
  rest_ = bytes;
  fed_ = bytes;
  lf_ = std::min(bytes.find('\n'), bytes.size());
  cr_ = std::min(bytes.find('\r'), bytes.size());
  boundary_ = 0;
  if (!bytes.empty() && std::exchange(skip_lf_, false) && bytes.front() == '\n') {
    rest_.remove_prefix(1);
    // It closes the line end that completed an event, so it belongs to that event.
    if (std::exchange(ended_, false)) boundary_ = 1;
  }
}

/// Each kind is searched for once per byte in all, in whole words at a time: a stream without CR, the usual one, costs
/// one search for it a feed.
std::size_t SseParser::line_end(std::size_t from) {
  if (lf_ < from) lf_ = std::min(fed_.find('\n', from), fed_.size());
  if (cr_ < from) cr_ = std::min(fed_.find('\r', from), fed_.size());
  return std::min(lf_, cr_);
}

/// The fed bytes are about to go away: copy what the open event needs of them.
void SseParser::keep_data() {
  if (has_data_ && !copied_) {
    data_.assign(data_view_);
    copied_ = true;
  }
}

void SseParser::line(std::string_view text) {
  if (first_line_) {
    first_line_ = false;
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  }
  const std::size_t colon = text.find(':');
  if (colon == 0) return;  // a comment
  const std::string_view name = text.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "event") {
    type_.assign(value);
  } else if (name == "data") {
    if (!has_data_) {
      has_data_ = true;
      if (partial_.empty()) {
        data_view_ = value;
        return;
      }
      data_.assign(value);
      copied_ = true;
      return;
    }
    keep_data();
    data_.push_back('\n');
    data_.append(value);
  }
}

/// Nearly all events are "data: ...", a line feed and another: nothing but that is looked at here.
std::optional<SseParser::Event> SseParser::one_line_event() {
  constexpr std::string_view kData = "data: ";
  if (has_data_ || first_line_ || skip_lf_ || overflowed_ || cr_ != fed_.size()) return std::nullopt;
  if (!partial_.empty() || !type_.empty() || !rest_.starts_with(kData)) return std::nullopt;
  const std::size_t end = rest_.find('\n', kData.size());
  if (end == std::string_view::npos || end > max_event_bytes_ || end + 1 >= rest_.size() || rest_[end + 1] != '\n') {
    return std::nullopt;
  }
  data_view_ = rest_.substr(kData.size(), end - kData.size());
  rest_.remove_prefix(end + 2);
  boundary_ = fed_.size() - rest_.size();
  has_data_ = emitted_ = true;
  return Event{{}, data_view_};
}

std::string_view SseParser::plain_rest() const {
  const bool open = has_data_ && !emitted_;
  const bool typed = !type_.empty() && !emitted_;
  if (open || typed || first_line_ || skip_lf_ || overflowed_ || cr_ != fed_.size() || !partial_.empty()) return {};
  return rest_.size() > max_event_bytes_ ? std::string_view() : rest_;
}

void SseParser::pass(std::size_t bytes) {
  if (bytes == 0) return;
  rest_.remove_prefix(bytes);
  boundary_ = fed_.size() - rest_.size();
}

std::optional<SseParser::Event> SseParser::next() {
  if (emitted_) {
    emitted_ = false;
    has_data_ = false;
    copied_ = false;
    data_.clear();
    type_.clear();
  }
  if (const auto whole = one_line_event()) return whole;
  while (!rest_.empty() && !overflowed_) {
    if (std::exchange(skip_lf_, false) && rest_.front() == '\n') {
      rest_.remove_prefix(1);
      continue;
    }
    const std::size_t from = fed_.size() - rest_.size();
    const std::size_t end = line_end(from) - from;
    if (end == rest_.size()) break;
    const bool cr = rest_[end] == '\r';
    std::string_view text = rest_.substr(0, end);
    const bool joined = !partial_.empty();
    if (joined) {
      partial_.append(text);
      text = partial_;
    }
    rest_.remove_prefix(end + 1);
    skip_lf_ = cr;
    if (text.size() + data_.size() > max_event_bytes_) {
      overflowed_ = true;
      return std::nullopt;
    }
    ended_ = text.empty();
    if (!ended_) {
      line(text);
      partial_.clear();
      continue;
    }
    // A blank line ends an event.
    if (skip_lf_ && !rest_.empty() && rest_.front() == '\n') {
      rest_.remove_prefix(1);
      skip_lf_ = false;
    }
    boundary_ = fed_.size() - rest_.size();
    if (!has_data_) {
      type_.clear();
      continue;
    }
    emitted_ = true;
    return Event{type_, copied_ ? std::string_view(data_) : data_view_};
  }
  if (!rest_.empty() && !overflowed_) {
    if (partial_.size() + rest_.size() + data_.size() > max_event_bytes_) {
      overflowed_ = true;
    } else {
      partial_.append(rest_);
    }
    rest_ = {};
  }
  keep_data();
  return std::nullopt;
}

}  // namespace wattle::net
