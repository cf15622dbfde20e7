#include "ask_source.h"

#include "base/file.h"
#include "config/locate.h"
#include "http_get.h"

namespace wattle::apps {

namespace {
using feeds::Source;

/// The file's only line, or the variable; "" when there is neither.
Result<std::string> key_of(const std::string& key_file, Source source) {
  std::string key;
  if (!key_file.empty()) {
    auto read = read_file(key_file);
    if (!read) return std::unexpected(read.error());
    key = std::move(*read);
  } else if (const char* variable = feeds::key_variable(source); variable != nullptr) {
    key = config::environment(variable);
  }
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) key.pop_back();
  return key;
}

Result<std::string> fetch(const feeds::Query& query, const feeds::HttpRequest& request, Span timeout,
                          const std::stop_token& stop, Span& wait) {
  auto answer = http_get(request.url, request.headers, request.basic, timeout, stop);
  if (!answer) return std::unexpected(answer.error());
  if (answer->status != 200) {
    wait = answer->retry_after;
    return std::unexpected(feeds::refused(query, answer->status, answer->retry_after, answer->body));
  }
  return std::move(answer->body);
}

Result<feeds::Feed> ask(const feeds::Query& query, const std::string& key_file, Span timeout,
                        const std::stop_token& stop, Span& wait) {
  auto key = key_of(key_file, query.source);
  if (!key) return std::unexpected(key.error());
  if (query.source == Source::WattTime && key->find(':') != std::string::npos) {
    const auto login = feeds::watttime_login(*key, query.base_url);
    if (!login) return std::unexpected(login.error());
    const auto said = fetch(query, *login, timeout, stop, wait);
    if (!said) return std::unexpected(said.error());
    auto token = feeds::watttime_token(*said, login->url);
    if (!token) return std::unexpected(token.error());
    key = std::move(token);
  }
  const auto request = feeds::request_for(query, *key);
  if (!request) return std::unexpected(request.error());
  const auto said = fetch(query, *request, timeout, stop, wait);
  if (!said) return std::unexpected(said.error());
  auto feed = feeds::parse_answer(query, *said, request->url);
  // a bad response is the server's fault, not the caller's
  if (!feed) return external_failure(feed.error().where, feed.error().what);
  return feed;
}

}  // namespace

SourceAnswer ask_source(const feeds::Query& query, const std::string& key_file, Span timeout,
                        const std::stop_token& stop) {
  Span wait;
  auto feed = ask(query, key_file, timeout, stop, wait);
  return {std::move(feed), wait};
}

}  // namespace wattle::apps
