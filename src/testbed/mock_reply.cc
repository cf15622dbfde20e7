#include "testbed/mock_reply.h"

namespace wattle::testbed {

void MockReply::token(std::size_t choice, const char* last) {
  if (!stream_ || over_) return;
  if (!std::exchange(begun_, true)) {
    exchange_->begin(200, "text/event-stream; charset=utf-8", "Cache-Control: no-cache\r\n");
    exchange_->write(words_.opening());
  }
  exchange_->write(words_.token(kWord, last, static_cast<std::int32_t>(choice)));
}

void MockReply::finished(std::size_t choice, const char* reason, const Usage& usage, const std::string& extra_headers) {
  if (over_) return;
  usage_.prompt += usage.prompt;
  usage_.output += usage.output;
  usage_.cached += usage.cached;
  --left_;
  const auto index = static_cast<std::int32_t>(choice);
  if (stream_) {
    exchange_->write(words_.end_of(index, reason) +
                     (left_ == 0 ? words_.closing(include_usage_ ? &usage_ : nullptr) : ""));
    if (left_ == 0 && close()) exchange_->finish();
    return;
  }
  std::string text;
  for (std::int32_t i = 0; i < usage.output; ++i) text += kWord;
  choices_[choice] = words_.choice(index, text, reason);
  if (left_ == 0 && close()) exchange_->respond(200, kJson, words_.whole(choices_, usage_).dump(), extra_headers);
}

void MockReply::broken(std::string_view message) {
  exchange_->write(words_.broken(message));
  exchange_->finish();
}

}  // namespace wattle::testbed
